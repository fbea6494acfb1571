"""One of several processes that do the same thing at once: `python -m … <task> <url>`.

It says `ready` when it is connected, waits for a line with its argument, and prints what came of
it, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from deerstore.database import Database
from deerstore.errors import AlreadyExistsError, DeerstoreError
from deerstore.repositories import (
    FeedbackCreate,
    RunCreate,
    RunEventCreate,
    UserCreate,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from tests.fixtures.fix_databases import configured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def first_admin(database: Database, name: str) -> str:
    users = build_user_repository(database)
    try:
        user = await users.create_first_admin(UserCreate(id=name, email=f"{name}@example.com"))
    except AlreadyExistsError:
        return "refused"
    return user.id


async def admit(database: Database, argument: dict[str, Any]) -> dict[str, Any]:
    """Admit several runs one after the other; which were, what they interrupted, who refused."""
    runs = build_run_repository(database)
    admitted, interrupted, refused = [], [], []
    for number in range(argument["times"]):
        run = RunCreate(
            run_id=f"{argument['worker']}-{number}",
            thread_id="t",
            owner_worker_id=argument["worker"],
            multitask_strategy=argument["strategy"],
        )
        try:
            admission = await runs.admit_run(run, lease_seconds=argument["lease_seconds"])
        except DeerstoreError as error:
            refused.append(getattr(error, "reason", repr(error)))
        else:
            admitted.append(admission.run.run_id)
            interrupted += [each.run_id for each in admission.interrupted]
    return {"admitted": admitted, "interrupted": interrupted, "refused": refused}


async def admit_with_key(database: Database, worker: str) -> list[Any]:
    runs = build_run_repository(database)
    run = RunCreate(run_id=worker, thread_id="t", idempotency_key="once")
    admission = await runs.admit_run(run)
    return [admission.run.run_id, admission.reused]


async def finish_or_cancel(database: Database, argument: list[str]) -> list[Any]:
    """For each run either write its outcome or ask for a cancel; which of it came about."""
    runs = build_run_repository(database)
    role, *run_ids = argument
    said: list[Any] = []
    for run_id in run_ids:
        if role == "finish":
            outcome = await runs.finalize_run(run_id, status="success")
            said.append([outcome.finalized, outcome.cancel_action])
        else:
            said.append(await runs.request_cancel(run_id, action="interrupt"))
    return said


async def renew_or_claim(database: Database, argument: list[str]) -> list[bool]:
    """For each run either renew its expired lease or take it over; which of it came about."""
    runs = build_run_repository(database)
    role, *run_ids = argument
    said = []
    for run_id in run_ids:
        if role == "renew":
            renewal = await runs.renew_lease(run_id, owner_worker_id="w", lease_seconds=60)
            said.append(renewal.renewed)
        else:
            said.append(await runs.claim_expired_run(run_id, error="lost", grace_seconds=0))
    return said


async def rate(database: Database, argument: dict[str, Any]) -> list[str]:
    ratings = build_feedback_repository(database)
    ids = []
    for number in range(argument["times"]):
        feedback = FeedbackCreate(
            feedback_id=f"{argument['worker']}-{number}",
            run_id="r",
            thread_id="t",
            rating=1,
            user_id=argument["user_id"],
        )
        ids.append((await ratings.upsert_feedback(feedback)).feedback_id)
    return ids


async def append(database: Database, argument: dict[str, Any]) -> list[list[Any]]:
    """Several writers append batches to a few threads; thread and seq of every event."""
    events = build_run_event_repository(database)
    threads = argument["threads"]

    async def write(writer: int) -> list[list[Any]]:
        said: list[list[Any]] = []
        for number in range(argument["batches"]):
            # Every seventh batch goes to all threads, each writer's in another order.
            start = writer + number
            names = [threads[(start + i) % len(threads)] for i in range(len(threads))]
            batch = [
                RunEventCreate(
                    thread_id=name,
                    run_id=argument["worker"],
                    event_type=f"w{writer}",
                    category="message",
                    content=[number, position],
                )
                for position, name in enumerate(
                    names if argument["mixed"] and number % 7 == 0 else names[:1] * 3
                )
            ]
            said += [[made.thread_id, made.seq] for made in await events.append_batch(batch)]
        return said

    written = await asyncio.gather(*(write(writer) for writer in range(argument["writers"])))
    return [pair for pairs in written for pair in pairs]


async def append_once(database: Database, run_ids: list[str]) -> list[bool]:
    """Several tasks append one event per run unless it is there; which of them did."""
    events = build_run_event_repository(database)

    async def once(run_id: str) -> bool:
        event = RunEventCreate(
            thread_id="t", run_id=run_id, event_type="run.start", category="trace"
        )
        return (await events.append_if_absent(event))[1]

    return await asyncio.gather(*(once(run_id) for run_id in run_ids))


async def patch(database: Database, keys: list[str]) -> list[bool]:
    threads = build_thread_meta_repository(database)
    return await asyncio.gather(*(threads.merge_thread_metadata("t", {key: key}) for key in keys))


TASKS: dict[str, Callable[[Database, Any], Awaitable[Any]]] = {
    task.__name__: task
    for task in (
        first_admin,
        admit,
        admit_with_key,
        finish_or_cancel,
        renew_or_claim,
        rate,
        append,
        append_once,
        patch,
    )
}


async def main(task: str, url: str) -> None:
    async with await Database.open(configured(url)) as database:
        print("ready", flush=True)
        argument = json.loads(await asyncio.to_thread(sys.stdin.readline))
        print(json.dumps(await TASKS[task](database, argument)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
