"""Carries out runs. One run is written down in this order:

1. the run's row, ``pending``: from here on the thread has no room for another run
2. the thread's row, ``running``
3. the run's row, ``running``
4. the state before the run is remembered, so that a rollback can bring it back
5. the graph: its checkpoints, and its events through the journal
6. the rest of the events
7. the run's outcome, with tokens and summaries, in one transaction: the thread has room again
8. the thread's title
9. the thread's status: ``idle``, ``interrupted`` when the graph is not at its end, or ``error``

A process that dies between two of these steps leaves rows that the next start can read; its
``gateway_runtime`` ends the run as an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from deerstore.errors import DeerstoreError
from deerstore.gateway import RollbackPoint, RunJournal, capture_rollback_point, rollback_to
from examples.gateway.bridge import StreamEvent
from examples.gateway.streaming import Publisher

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

    from deerstore.gateway.runs.outcome import CancelOutcome
    from deerstore.gateway.runtime import GatewayRuntime
    from deerstore.repositories import Run
    from examples.gateway.bridge import StreamBridge
    from examples.gateway.shapes import HistoryQuery, RunRequest

ACTIVE = ("pending", "running")
ROLLED_BACK = "The run was cancelled and rolled back."
LOST = "The run was lost: its worker could not renew its lease."
NOT_WRITTEN = "The run's outcome could not be written."

_log = logging.getLogger("examples.gateway")

_POLL_SECONDS = 0.25
_RESERVED_SECONDS = 60


@dataclass(slots=True)
class _Execution:
    """A run while it is carried out."""

    run: Run
    journal: RunJournal
    point: RollbackPoint | None = None
    """The state before the run; `None` until the graph is about to begin."""
    status: str = "interrupted"
    error: str | None = None


class Worker:
    """Carries out the runs of this process.

    Args:
        runtime: what `gateway_runtime` gave.
        agent: the graph, compiled over the runtime's checkpointer and Store.
        bridge: takes what the runs stream.
        flush_threshold: so many waiting events are written without being asked.
    """

    def __init__(
        self,
        runtime: GatewayRuntime,
        agent: CompiledStateGraph[Any, Any, Any, Any],
        bridge: StreamBridge,
        *,
        flush_threshold: int = 20,
    ) -> None:
        self.runtime = runtime
        self.agent = agent
        self.bridge = bridge
        self._flush_threshold = flush_threshold
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- what the routes call --------------------------------------------------------------------

    async def begin(
        self,
        thread_id: str,
        request: RunRequest,
        *,
        user_id: str | None,
        idempotency_key: str | None = None,
    ) -> str:
        """Admit a run and begin to carry it out; gives its id.

        The same key of the same user in the same thread gives the run that it made first.

        Raises:
            ActiveRunConflictError: the thread has a run that does not make room.
        """
        manager = self.runtime.run_manager
        run_id = str(uuid.uuid4())
        run = await manager.create_or_reject(
            thread_id,
            request.assistant_id,
            user_id=user_id,
            metadata=request.metadata,
            kwargs=request.model_dump(mode="json", exclude_unset=True, exclude={"metadata"}),
            multitask_strategy=request.multitask_strategy,
            idempotency_key=_own_key(user_id, thread_id, idempotency_key),
            run_id=run_id,
        )
        if run.run_id == run_id:
            self.bridge.open(run_id)
            task = asyncio.create_task(self._execute(run, request), name=f"run {run_id}")
            self._tasks[run_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(run_id, None))
            manager.attach(run_id, task)
        return run.run_id

    async def cancel(self, run_id: str, action: str) -> CancelOutcome:
        """Stop a run, wherever it is carried out."""
        return await self.runtime.run_manager.cancel(run_id, action=action)

    async def wait(self, run_id: str) -> dict[str, Any] | None:
        """Wait for the end of a run, of this worker or of another one; gives its row."""
        task = self._tasks.get(run_id)
        if task is not None:
            await asyncio.wait([task])
        while True:
            row = await self.runtime.run_store.get(run_id, user_id=None)
            if row is None or row["status"] not in ACTIVE:
                return row
            await asyncio.sleep(_POLL_SECONDS)

    async def state(self, thread_id: str, **place: Any) -> StateSnapshot:
        """A thread's state, the latest one unless a checkpoint is named."""
        return await self.agent.aget_state({"configurable": {"thread_id": thread_id, **place}})

    def history(self, thread_id: str, query: HistoryQuery) -> AsyncIterator[StateSnapshot]:
        """A thread's states, newest first."""
        place = query.checkpoint.model_dump() if query.checkpoint else {}
        before: RunnableConfig | None = None
        if query.before is not None:
            named = query.before if isinstance(query.before, str) else query.before.checkpoint_id
            before = {"configurable": {"thread_id": thread_id, "checkpoint_id": named}}
        return self.agent.aget_state_history(
            {"configurable": {"thread_id": thread_id, **place}},
            filter=query.metadata,
            before=before,
            limit=query.limit,
        )

    async def events(self, run_id: str, thread_id: str, *, after: int) -> AsyncIterator[bytes]:
        """What a run streams, as server-sent events; of another worker's run, how it ended."""
        if run_id in self.bridge:
            async for event in self.bridge.listen(run_id, after=after):
                yield event.encode()
            return
        ended = await self.wait(run_id)
        if ended is not None:
            state = await self.state(thread_id)
            end = {"run_id": run_id, "status": ended["status"]}
            for number, (name, data) in enumerate((("values", state.values), ("end", end)), 1):
                yield StreamEvent.of(number, name, data).encode()

    @asynccontextmanager
    async def reserved(self, thread_id: str, kind: str) -> AsyncIterator[None]:
        """Keep a thread free of runs, for work that is none.

        Raises:
            ActiveRunConflictError: the thread has an active run.
        """
        runs, operation = self.runtime.run_store, str(uuid.uuid4())
        await runs.create_thread_operation_atomic(
            operation,
            thread_id=thread_id,
            owner_worker_id=self.runtime.run_manager.worker_id,
            lease_expires_at=datetime.now(UTC) + timedelta(seconds=_RESERVED_SECONDS),
            operation_kind=kind,
        )
        try:
            async with self._turn(thread_id):
                yield
        finally:
            await runs.delete_thread_operation(operation, user_id=None)

    # -- one run ---------------------------------------------------------------------------------

    def _turn(self, thread_id: str) -> asyncio.Lock:
        """Lets a run begin only when the one that made room for it has been wound up."""
        return self._turns.setdefault(thread_id, asyncio.Lock())

    async def _execute(self, run: Run, request: RunRequest) -> None:
        journal = RunJournal(
            run.run_id,
            run.thread_id,
            self.runtime.run_event_store,
            user_id=run.user_id,
            flush_threshold=self._flush_threshold,
        )
        this = _Execution(run, journal)
        publisher = Publisher(self.bridge, run.run_id, request)
        publisher.begin(run.thread_id)
        try:
            async with AsyncExitStack() as turn:
                try:
                    await turn.enter_async_context(self._turn(run.thread_id))
                    await self._run_graph(this, request, publisher)
                except asyncio.CancelledError as cancelled:
                    await _wait_for_exit(cancelled)
                except Exception as failure:  # noqa: BLE001 - it is the run's outcome
                    _log.exception("run %s failed", run.run_id)
                    this.status, this.error = "error", f"{type(failure).__name__}: {failure}"
                await _undisturbed(self._end(this))
        except DeerstoreError:
            # The manager tries again; the listeners must not hear of an outcome that nobody has.
            this.status, this.error = "error", NOT_WRITTEN
            raise
        finally:
            publisher.end(this.status, this.error)
            self.bridge.close(run.run_id)

    async def _run_graph(self, this: _Execution, request: RunRequest, publisher: Publisher) -> None:
        run, runtime = this.run, self.runtime
        await runtime.thread_store.update_status(run.thread_id, "running", user_id=None)
        if not await runtime.run_manager.start(run.run_id):
            return
        this.point = await capture_rollback_point(runtime.checkpointer, run.thread_id)
        config = request.graph_config(run.thread_id)
        config["callbacks"] = [this.journal]
        stream = self.agent.astream(
            request.graph_input(),
            config,
            context=request.context,
            stream_mode=publisher.graph_modes,
            subgraphs=True,
            interrupt_before=request.interrupt_before,
            interrupt_after=request.interrupt_after,
            durability=request.durability,
        )
        async with aclosing(cast("AsyncGenerator[Any]", stream)) as chunks:
            async for namespace, mode, chunk in chunks:
                publisher.publish(namespace, mode, chunk)
        this.status = "success"

    async def _end(self, this: _Execution) -> None:
        run, manager = this.run, self.runtime.run_manager
        if not manager.holds_lease(run.run_id):
            # Another worker may be at work in this thread: nothing more is written for the run.
            this.status, this.error = "error", LOST
            return
        action = manager.abort_action(run.run_id)
        if this.status != "interrupted":
            await self._flush(this)
            outcome = await manager.finish(
                run.run_id, status=this.status, error=this.error, **this.journal.completion()
            )
            if outcome.finalized:
                await self._settle_thread(this, failed=this.status == "error")
                return
            # A cancel came first; it is in the database, and is done.
            this.status, this.error, action = "interrupted", None, outcome.cancel_action
        # Before the run's row ends: until then the thread has no room for the next run.
        rolled_back = action == "rollback" and await self._roll_back(this)
        await self._flush(this)
        await manager.finish(run.run_id, status="interrupted", **this.journal.completion())
        if rolled_back:
            await manager.finish(run.run_id, status="error", error=ROLLED_BACK)
            this.status = "error"
        await self._settle_thread(this)

    async def _roll_back(self, this: _Execution) -> bool:
        try:
            await rollback_to(self.runtime.checkpointer, this.point)
        except (DeerstoreError, RuntimeError):
            _log.exception("run %s was not rolled back", this.run.run_id)
            return False
        return True

    async def _flush(self, this: _Execution) -> None:
        try:
            await this.journal.flush()
        except Exception:  # noqa: BLE001 - the outcome is written all the same
            _log.exception("run %s: events were not written", this.run.run_id)

    async def _settle_thread(self, this: _Execution, *, failed: bool = False) -> None:
        thread_id, runtime = this.run.thread_id, self.runtime
        snapshot = await self.state(thread_id)
        if title := snapshot.values.get("title"):
            await runtime.thread_store.update_display_name(thread_id, title, user_id=None)
        newest = await runtime.run_store.list_by_thread(thread_id, limit=1, user_id=None)
        if newest and newest[0]["status"] in ACTIVE:
            # The thread is the next run's already.
            return
        # Tasks are left where the graph waits for a human, or was stopped on its way.
        status = "error" if failed else "interrupted" if snapshot.tasks else "idle"
        await runtime.thread_store.update_status(thread_id, status, user_id=None)


async def _wait_for_exit(cancelled: asyncio.CancelledError) -> None:
    """LangGraph hands out the task that still saves the last step of a cancelled run."""
    saving = [task for task in cancelled.args if isinstance(task, asyncio.Task)]
    if saving:
        await asyncio.wait(saving)


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Do work to its end, also when its task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()


def _own_key(user_id: str | None, thread_id: str, key: str | None) -> str | None:
    """A key that no other user can guess their way into."""
    if key is None:
        return None
    return hashlib.sha256(repr((user_id, thread_id, key)).encode()).hexdigest()
