"""Run events under many tasks and processes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.repositories import RunEventCreate, build_run_event_repository

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database

THREADS = ["t1", "t2", "t3"]


@pytest.mark.parametrize("mixed", [False, True], ids=["one_thread_batches", "mixed_batches"])
async def test_two_processes_of_eight_writers_leave_no_error_gap_or_duplicate(
    race: Callable[..., list[Any]], database: Database, mixed: bool
) -> None:
    work = {"threads": THREADS, "batches": 40 if mixed else 200, "writers": 8, "mixed": mixed}
    said = await asyncio.to_thread(
        race, "append", [{"worker": worker, **work} for worker in ("a", "b")]
    )
    seqs: dict[str, list[int]] = defaultdict(list)
    for thread, seq in said[0] + said[1]:
        seqs[thread].append(seq)
    total = 2 * 8 * work["batches"] * 3
    assert sum(map(len, seqs.values())) == total
    events = build_run_event_repository(database)
    for thread in THREADS:
        assert len(set(seqs[thread])) == len(seqs[thread])
        if not mixed:
            assert sorted(seqs[thread]) == list(range(1, len(seqs[thread]) + 1))
        stored = await events.list_messages(thread, after_seq=0, limit=total)
        assert [each.seq for each in stored] == sorted(seqs[thread])
        # Each writer's own events stand in the order of its calls.
        own: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for each in stored:
            own[each.run_id, each.event_type].append(each.content)
        assert all(contents == sorted(contents) for contents in own.values())


async def test_append_if_absent_creates_one_per_run_across_processes(
    race: Callable[..., list[Any]], database: Database
) -> None:
    runs = [f"r{n}" for n in range(20)]
    said = await asyncio.to_thread(race, "append_once", [runs * 2] * 2)
    assert sum(map(sum, said)) == len(runs)
    events = build_run_event_repository(database)
    found = [await events.list_events("t", run) for run in runs]
    assert sorted(each.seq for (each,) in found) == list(range(1, len(runs) + 1))


async def test_a_reader_never_sees_a_number_before_a_lower_one(
    database: Database, other: Database
) -> None:
    events = build_run_event_repository(database)
    reader = build_run_event_repository(other)

    async def write(writer: int) -> None:
        for _ in range(25):
            await events.append_batch(
                [
                    RunEventCreate(
                        thread_id="t", run_id=f"{writer}", event_type="e", category="message"
                    )
                ]
                * 4
            )

    writing = asyncio.gather(*(write(writer) for writer in range(4)))
    seen: list[int] = []
    while not writing.done() or len(seen) < 400:
        page = await reader.list_messages("t", after_seq=seen[-1] if seen else 0, limit=1_000)
        seen += [each.seq for each in page]
        if writing.done() and not page:
            break
    await writing
    assert seen == list(range(1, 401))


async def test_deletes_beside_appends_never_free_a_number(database: Database) -> None:
    events = build_run_event_repository(database)
    given: list[int] = []

    async def write() -> None:
        for _ in range(40):
            made = await events.append(
                RunEventCreate(thread_id="t", run_id="r", event_type="e", category="message")
            )
            given.append(made.seq)

    async def delete() -> None:
        for _ in range(20):
            await events.delete_by_thread("t")
            await asyncio.sleep(0)

    await asyncio.gather(write(), write(), delete())
    assert sorted(given) == list(range(1, 81))
