"""The routes: who may do what, and in which shape it is said."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from deerstore.errors import AlreadyExistsError
from deerstore.gateway import serialize_channel_values_for_api
from deerstore.gateway.runs.outcome import CancelOutcome
from examples.gateway import shapes
from examples.gateway.agent import ASSISTANT_ID
from examples.gateway.streaming import error_out
from examples.gateway.worker import ACTIVE, Worker

Row = dict[str, Any]

router = APIRouter()

# -- what the routes have in common ------------------------------------------------------------


def _worker(request: Request) -> Worker:
    worker: Worker = request.app.state.worker
    return worker


def _user(request: Request) -> str:
    user_id: str = request.scope["user_id"]
    return user_id


AWorker = Annotated[Worker, Depends(_worker)]
AUser = Annotated[str, Depends(_user)]


async def _thread(thread_id: str, worker: AWorker) -> Row:
    """The thread in the path, if it is the user's."""
    row = await worker.runtime.thread_store.get(thread_id)
    if row is None:
        raise HTTPException(404, f"there is no thread {thread_id!r}")
    return row


async def _run(thread: AThread, run_id: str, worker: AWorker) -> Row:
    """The run in the path, if it is one of the thread in the path."""
    row = await worker.runtime.run_store.get(run_id)
    if row is None or row["thread_id"] != thread["thread_id"]:
        raise HTTPException(404, f"there is no run {run_id!r} in this thread")
    return row


AThread = Annotated[Row, Depends(_thread)]
ARun = Annotated[Row, Depends(_run)]

# -- threads -----------------------------------------------------------------------------------


@router.post("/threads")
async def create_thread(body: shapes.ThreadCreate, worker: AWorker) -> Row:
    """A new thread; with `if_exists=do_nothing` the one that is there."""
    threads = worker.runtime.thread_store
    thread_id = body.thread_id or str(uuid.uuid4())
    try:
        row = await threads.create(thread_id, metadata=body.metadata)
    except AlreadyExistsError:
        if body.if_exists == "raise":
            raise
        row = await _thread(thread_id, worker)
    return shapes.thread_out(row)


@router.post("/threads/search")
async def search_threads(body: shapes.ThreadSearch, worker: AWorker) -> list[Row]:
    """The user's threads with these metadata, pinned ones first, then the most recent."""
    rows = await worker.runtime.thread_store.search(
        metadata=body.metadata, status=body.stored_status, limit=body.limit, offset=body.offset
    )
    return [shapes.thread_out(row) for row in rows]


@router.get("/threads/{thread_id}")
async def get_thread(thread: AThread, worker: AWorker) -> Row:
    """A thread with its present values."""
    return shapes.thread_out(thread, await worker.state(thread["thread_id"]))


@router.patch("/threads/{thread_id}")
async def patch_thread(body: shapes.ThreadPatch, thread: AThread, worker: AWorker) -> Row:
    """Merge keys into a thread's metadata."""
    await worker.runtime.thread_store.update_metadata(thread["thread_id"], body.metadata)
    return shapes.thread_out(await _thread(thread["thread_id"], worker))


@router.delete("/threads/{thread_id}", status_code=204)
async def delete_thread(thread: AThread, worker: AWorker) -> None:
    """End what runs in a thread, then remove the thread from every surface."""
    thread_id = thread["thread_id"]
    for row in await worker.runtime.run_store.list_by_thread(thread_id, limit=1):
        if row["status"] in ACTIVE:
            await worker.cancel(row["run_id"], "interrupt")
            await worker.wait(row["run_id"])
    async with worker.reserved(thread_id, "delete"):
        await worker.runtime.persistence.purge_thread(thread_id, include_store=True)


# -- a thread's state --------------------------------------------------------------------------


@router.get("/threads/{thread_id}/state")
async def get_state(thread: AThread, worker: AWorker) -> Row:
    """The thread's latest state."""
    return shapes.state_out(await worker.state(thread["thread_id"]))


@router.post("/threads/{thread_id}/state/checkpoint")
async def get_state_at(body: shapes.StateAt, thread: AThread, worker: AWorker) -> Row:
    """The state at a checkpoint."""
    return shapes.state_out(await worker.state(thread["thread_id"], **body.place()))


@router.get("/threads/{thread_id}/state/{checkpoint_id}")
async def get_state_by_id(checkpoint_id: str, thread: AThread, worker: AWorker) -> Row:
    """The state at a checkpoint, by its id."""
    return shapes.state_out(await worker.state(thread["thread_id"], checkpoint_id=checkpoint_id))


@router.post("/threads/{thread_id}/state")
async def update_state(body: shapes.StateUpdate, thread: AThread, worker: AWorker) -> Row:
    """Write to the state as a node would; not while a run writes to it."""
    thread_id = thread["thread_id"]
    async with worker.reserved(thread_id, "state"):
        config = await worker.agent.aupdate_state(
            {"configurable": {"thread_id": thread_id, **body.place()}},
            body.values,
            as_node=body.as_node,
        )
    return {"checkpoint": shapes.checkpoint_out(config)}


@router.post("/threads/{thread_id}/history")
async def get_history(body: shapes.HistoryQuery, thread: AThread, worker: AWorker) -> list[Row]:
    """The thread's earlier states, newest first."""
    return [shapes.state_out(state) async for state in worker.history(thread["thread_id"], body)]


@router.get("/threads/{thread_id}/history")
async def list_history(
    thread: AThread,
    worker: AWorker,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    before: str | None = None,
) -> list[Row]:
    """The same, for a link."""
    return await get_history(shapes.HistoryQuery(limit=limit, before=before), thread, worker)


# -- runs --------------------------------------------------------------------------------------


async def _begun(
    thread_id: str,
    body: shapes.RunRequest,
    worker: AWorker,
    user: AUser,
    response: Response,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Row:
    """The run that the request asks for, admitted and begun."""
    if body.assistant_id != ASSISTANT_ID:
        raise HTTPException(404, f"there is no assistant {body.assistant_id!r}")
    if body.if_not_exists == "create":
        await create_thread(
            shapes.ThreadCreate(thread_id=thread_id, if_exists="do_nothing"), worker
        )
    thread = await _thread(thread_id, worker)
    run_id = await worker.begin(
        thread["thread_id"], body, user_id=user, idempotency_key=idempotency_key
    )
    row = await _run(thread, run_id, worker)
    response.headers["Content-Location"] = _path(row)
    return row


ABegun = Annotated[Row, Depends(_begun)]


@router.post("/threads/{thread_id}/runs")
async def create_run(run: ABegun) -> Row:
    """Begin a run; it goes on by itself."""
    return shapes.run_out(run)


@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(run: ABegun, worker: AWorker) -> Response:
    """Begin a run and listen to it. When the connection is lost, the run goes on."""
    return _stream(run, worker)


@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(run: ABegun, worker: AWorker, response: Response) -> Any:
    """Begin a run and wait for its values."""
    response.headers["Location"] = f"{_path(run)}/join"
    return await join_run(run, worker)


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread: AThread,
    worker: AWorker,
    limit: Annotated[int, Query(ge=0, le=1000)] = 10,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> list[Row]:
    """The thread's runs, newest first."""
    rows = await worker.runtime.run_store.list_by_thread(thread["thread_id"], limit=offset + limit)
    return [shapes.run_out(row) for row in rows[offset:]]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(run: ARun) -> Row:
    """One run."""
    return shapes.run_out(run)


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def join_stream(
    run: ARun, worker: AWorker, last_event_id: Annotated[int, Header(ge=0)] = 0
) -> Response:
    """Listen to a run from its beginning, or from behind an event."""
    return _stream(run, worker, after=last_event_id)


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(run: ARun, worker: AWorker) -> Any:
    """Wait for a run's values."""
    ended = await worker.wait(run["run_id"])
    if ended is None:
        raise HTTPException(404, "the run was deleted meanwhile")
    if ended["status"] in ("error", "timeout"):
        return {"__error__": error_out(ended["error"] or ended["status"])}
    state = await worker.state(run["thread_id"])
    values = serialize_channel_values_for_api(state.values)
    if state.interrupts:
        values["__interrupt__"] = shapes.interrupts_out(state.interrupts)
    return values


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel_run(
    run: ARun,
    worker: AWorker,
    action: Literal["interrupt", "rollback"] = "interrupt",
    wait: bool = False,
) -> Response:
    """Stop a run; with `rollback` the thread's state is then what it was before it."""
    outcome = await worker.cancel(run["run_id"], action)
    if outcome is CancelOutcome.NOT_CANCELLABLE:
        raise HTTPException(409, "the run has ended already")
    if wait:
        await worker.wait(run["run_id"])
    return Response(status_code=204 if wait else 202)


def _stream(run: Row, worker: Worker, after: int = 0) -> Response:
    headers = {
        "Content-Location": _path(run),
        "Location": f"{_path(run)}/stream",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    events = worker.events(run["run_id"], run["thread_id"], after=after)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _path(run: Row) -> str:
    return f"/threads/{quote(run['thread_id'], safe='')}/runs/{quote(run['run_id'], safe='')}"


# -- what was said, what it cost, what was thought of it ---------------------------------------


@router.get("/threads/{thread_id}/messages")
async def list_messages(
    thread: AThread,
    worker: AWorker,
    limit: Annotated[int, Query(ge=0, le=1000)] = 50,
    before_seq: int | None = None,
    after_seq: int | None = None,
) -> Any:
    """A page of the thread's messages; without a cursor, the newest."""
    rows = await worker.runtime.run_event_store.list_messages(
        thread["thread_id"], limit=limit, before_seq=before_seq, after_seq=after_seq
    )
    return serialize_channel_values_for_api(rows)


@router.get("/threads/{thread_id}/runs/{run_id}/events")
async def list_events(
    run: ARun,
    worker: AWorker,
    event_types: Annotated[list[str] | None, Query()] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 500,
    after_seq: int | None = None,
) -> Any:
    """A page of everything that happened in a run."""
    rows = await worker.runtime.run_event_store.list_events(
        run["thread_id"], run["run_id"], event_types=event_types, limit=limit, after_seq=after_seq
    )
    return serialize_channel_values_for_api(rows)


@router.get("/threads/{thread_id}/token-usage")
async def token_usage(thread: AThread, worker: AWorker, include_active: bool = False) -> Any:
    """What the thread's runs used."""
    return await worker.runtime.run_store.aggregate_tokens_by_thread(
        thread["thread_id"], include_active=include_active
    )


@router.put("/threads/{thread_id}/runs/{run_id}/feedback")
async def put_feedback(body: shapes.FeedbackRequest, run: ARun, worker: AWorker) -> Row:
    """Rate a run, or change one's mind."""
    return await worker.runtime.feedback_repo.upsert(
        run_id=run["run_id"], thread_id=run["thread_id"], **body.model_dump()
    )


@router.get("/threads/{thread_id}/runs/{run_id}/feedback")
async def list_feedback(run: ARun, worker: AWorker) -> list[Row]:
    """The user's rating of a run."""
    return await worker.runtime.feedback_repo.list_by_run(run["thread_id"], run["run_id"])


@router.delete("/threads/{thread_id}/runs/{run_id}/feedback", status_code=204)
async def delete_feedback(run: ARun, worker: AWorker) -> None:
    """Take the rating back."""
    feedback = worker.runtime.feedback_repo
    if not await feedback.delete_by_run(thread_id=run["thread_id"], run_id=run["run_id"]):
        raise HTTPException(404, "this run has no rating of yours")
