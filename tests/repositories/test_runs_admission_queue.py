"""Admissions that make room in one thread stand in line: each finds what the one before left."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import ActiveRunConflictError, QueryExecutionError
from deerstore.repositories import RunCreate, build_run_repository, run_admission
from deerstore.repositories.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import RunRepository

QUEUE = statement("runs.queue_for_thread")


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


@pytest.fixture
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may look twice."""
    monkeypatch.setattr(run_admission, "_ATTEMPTS", 1)


def interrupting(run_id: str, thread_id: str = "t", **fields: Any) -> RunCreate:
    return RunCreate(run_id=run_id, thread_id=thread_id, multitask_strategy="interrupt", **fields)


async def waits(task: asyncio.Task[Any]) -> bool:
    return not (await asyncio.wait([task], timeout=0.3))[0]


@pytest.mark.usefixtures("one_look")
async def test_who_waited_gets_through_at_the_first_look(
    runs: RunRepository, session: Session
) -> None:
    # The newer a run, the earlier its id: an engine that reads on where it waited passes it over.
    await runs.admit_run(interrupting("z"))
    await session.execute(QUEUE, thread_id="t")
    waiting = [asyncio.create_task(runs.admit_run(interrupting(name))) for name in "xwv"]
    assert await waits(waiting[0])
    assert await waits(waiting[1])
    await build_run_repository(session).admit_run(interrupting("y"))
    await session.commit()
    admissions = await asyncio.gather(*waiting)
    interrupted = [run.run_id for admission in admissions for run in admission.interrupted]
    assert len(interrupted) == len(set(interrupted)) == 3
    assert [run.run_id for run in await runs.list_inflight()] == list(
        {"y", "x", "w", "v"} - set(interrupted)
    )


@pytest.mark.usefixtures("one_look")
async def test_who_waited_for_another_workers_run_is_told_so(
    runs: RunRepository, session: Session
) -> None:
    mine = {"owner_worker_id": "w", "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC)}
    await runs.admit_run(interrupting("z", **mine))
    await session.execute(QUEUE, thread_id="t")
    waiting = asyncio.create_task(runs.admit_run(interrupting("x", owner_worker_id="w2")))
    assert await waits(waiting)
    await build_run_repository(session).admit_run(interrupting("y", **mine))
    await session.commit()
    with pytest.raises(ActiveRunConflictError) as refused:
        await waiting
    assert refused.value.reason == "other_worker"


@pytest.mark.engines("postgres", "mysql", why="SQLite has one writer at a time")
async def test_a_rejecting_admission_does_not_stand_in_line(
    runs: RunRepository, session: Session
) -> None:
    await runs.admit_run(interrupting("z"))
    await build_run_repository(session).admit_run(interrupting("y"))
    rejecting = asyncio.create_task(runs.admit_run(RunCreate(run_id="x", thread_id="t")))
    assert not await waits(rejecting)
    with pytest.raises(ActiveRunConflictError):
        await rejecting


@pytest.mark.engines("postgres", "mysql", why="SQLite has one writer at a time")
async def test_making_room_touches_no_other_threads_runs(
    runs: RunRepository, session: Session
) -> None:
    await runs.admit_run(interrupting("elsewhere", "t2"))
    await runs.admit_run(interrupting("z"))
    await build_run_repository(session).start_run("elsewhere")
    admitting = asyncio.create_task(runs.admit_run(interrupting("y")))
    assert not await waits(admitting)
    assert [run.run_id for run in (await admitting).interrupted] == ["z"]


@pytest.mark.engines("postgres", "mysql", why="SQLite has one writer at a time")
async def test_making_room_touches_no_run_of_the_thread_that_has_ended(
    runs: RunRepository, session: Session
) -> None:
    for name in ("oldest", "ended", "z"):
        await runs.admit_run(interrupting(name))
    await build_run_repository(session).update_run_status("ended", "error")
    admitting = asyncio.create_task(runs.admit_run(interrupting("y")))
    assert not await waits(admitting)
    assert [run.run_id for run in (await admitting).interrupted] == ["z"]


@pytest.mark.parametrize("change", ["an older run is stored", "the oldest run is deleted"])
async def test_there_is_one_line_whatever_becomes_of_the_oldest_run(
    database: Database, runs: RunRepository, session: Session, change: str
) -> None:
    await runs.create_run(RunCreate(run_id="oldest", thread_id="t", status="success"))
    await runs.admit_run(interrupting("z"))
    await session.execute(QUEUE, thread_id="t")
    mine = build_run_repository(session)
    if change == "the oldest run is deleted":
        await mine.delete_run("oldest")
    else:
        await mine.admit_run(interrupting("y", created_time=datetime(2000, 1, 1, tzinfo=UTC)))
    async with database.session() as second, database.session() as third:
        waiting = asyncio.create_task(second.execute(QUEUE, thread_id="t"))
        assert await waits(waiting)
        await session.commit()
        await waiting
        last = asyncio.create_task(third.execute(QUEUE, thread_id="t"))
        assert await waits(last)
        await second.commit()
        await last


async def test_a_crowd_leaves_runs_beside_the_slot_alone(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    await runs.create_run(RunCreate(run_id="beside", thread_id="t", status="running"))
    said = race(
        "admit",
        [
            {"worker": f"w{n}", "times": 10, "strategy": "interrupt", "lease_seconds": None}
            for n in range(4)
        ],
    )
    assert [each["refused"] for each in said] == [[], [], [], []]
    beside = await runs.get_run("beside")
    assert beside is not None
    assert beside.status == "running"


@pytest.mark.engines("postgres", why="the others keep what was in the way locked")
async def test_a_put_looks_again_when_what_it_met_has_ended(
    runs: RunRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runs.create_run(RunCreate(run_id="beside", thread_id="t"))
    await runs.admit_run(RunCreate(run_id="met", thread_id="t"))
    refuse = run_admission._refuse_overwriting

    async def ended_meanwhile(*arguments: Any) -> None:
        assert isinstance(arguments[-1], QueryExecutionError)
        await runs.update_run_status("met", "success")
        await refuse(*arguments)

    monkeypatch.setattr(run_admission, "_refuse_overwriting", ended_meanwhile)
    assert await runs.put_run(RunCreate(run_id="beside", thread_id="t"))
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(RunCreate(run_id="r", thread_id="t"))
