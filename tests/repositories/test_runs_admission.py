"""At most one admitted active run per thread, across processes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import (
    ActiveRunConflictError,
    DuplicateIdError,
    IdempotencyConflictError,
    InvalidValueError,
)
from deerstore.repositories import RunCreate, build_run_repository
from tests.repositories.test_runs import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import RunRepository

INTERRUPTING = pytest.mark.parametrize("strategy", ["interrupt", "rollback"])


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


def create(run_id: str = "r", thread_id: str = "t", **fields: Any) -> RunCreate:
    return RunCreate(run_id=run_id, thread_id=thread_id, **fields)


async def status(runs: RunRepository, run_id: str) -> str:
    run = await runs.get_run(run_id)
    assert run is not None
    return run.status


async def test_an_admitted_run_is_a_run_like_any_other(runs: RunRepository) -> None:
    admission = await runs.admit_run(
        create(user_id="u", metadata={"a": 1}, kwargs=None, owner_worker_id="w"), lease_seconds=30
    )
    assert (admission.interrupted, admission.reused) == ([], False)
    assert admission.run == await runs.get_run("r")
    assert admission.run.status == "pending"


async def test_the_lease_is_counted_on_the_databases_clock(
    runs: RunRepository, engine: str
) -> None:
    before = datetime.now(UTC)
    run = (await runs.admit_run(create(owner_worker_id="w"), lease_seconds=30.5)).run
    after = datetime.now(UTC)
    assert run.lease_expires_at is not None
    # The clocks of this process and of the database's are one here, read to the millisecond.
    slack = timedelta(milliseconds=2)
    lease = run.lease_expires_at - timedelta(seconds=30.5)
    assert before - slack <= lease <= after + slack
    assert run == await runs.get_run("r")


async def test_without_lease_seconds_the_lease_is_the_given_one(runs: RunRepository) -> None:
    end = datetime(2030, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert (await runs.admit_run(create(lease_expires_at=end))).run.lease_expires_at == end
    assert (await runs.admit_run(create("r2", "t2"))).run.lease_expires_at is None


async def test_reject_gives_way_to_an_active_run(runs: RunRepository) -> None:
    await runs.admit_run(create("r1"))
    for state in ("pending", "running"):
        await runs.update_run_status("r1", state)
        with pytest.raises(ActiveRunConflictError) as refused:
            await runs.admit_run(create("r2"))
        assert refused.value.reason == "active_run"
        assert refused.value.sqlstate == "23505"
    assert await runs.get_run("r2") is None
    await runs.admit_run(create("r3", "t2"))


@pytest.mark.parametrize("final", ["success", "error", "timeout", "interrupted"])
async def test_a_final_state_frees_the_slot_whoever_writes_it(
    runs: RunRepository, raw_sql: Callable[..., Any], final: str
) -> None:
    await runs.admit_run(create("r1"))
    raw_sql("UPDATE runs SET status = %s WHERE run_id = 'r1'", final)
    await runs.admit_run(create("r2"))
    await runs.delete_run("r2")
    await runs.admit_run(create("r3"))


async def test_an_active_run_of_another_writer_holds_the_slot(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    at = "2026-01-01 00:00:00"
    raw_sql(INSERT, "old", "t", "running", "{}", "{}", at, at)
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(create("r1"))
    with pytest.raises(ActiveRunConflictError):
        await runs.put_run(create("r1"))
    assert await runs.put_run(create("r0", status="success"))
    admission = await runs.admit_run(create("r1", multitask_strategy="interrupt"))
    assert [run.run_id for run in admission.interrupted] == ["old"]


@INTERRUPTING
async def test_an_interrupting_admission_takes_the_workers_own_run(
    runs: RunRepository, strategy: str
) -> None:
    old = (await runs.admit_run(create("r1", owner_worker_id="w"), lease_seconds=60)).run
    admission = await runs.admit_run(
        create("r2", owner_worker_id="w", multitask_strategy=strategy), lease_seconds=60
    )
    (interrupted,) = admission.interrupted
    assert interrupted == await runs.get_run("r1")
    assert interrupted.status == "interrupted"
    assert interrupted.error
    assert interrupted.created_time == old.created_time
    assert admission.run == await runs.get_run("r2")


@INTERRUPTING
async def test_a_live_run_of_another_worker_is_left_alone(
    runs: RunRepository, strategy: str
) -> None:
    await runs.admit_run(create("r1", owner_worker_id="w"), lease_seconds=60)
    for worker in ("W", "w2", None):
        with pytest.raises(ActiveRunConflictError) as refused:
            await runs.admit_run(create("r2", owner_worker_id=worker, multitask_strategy=strategy))
        assert refused.value.reason == "other_worker"
        assert not hasattr(refused.value, "sqlstate")
    assert await status(runs, "r1") == "pending"
    assert await runs.get_run("r2") is None


@INTERRUPTING
@pytest.mark.parametrize("lease_seconds", [None, 0, -60])
async def test_a_run_of_another_worker_without_a_live_lease_is_taken(
    runs: RunRepository, strategy: str, lease_seconds: float | None
) -> None:
    await runs.admit_run(create("r1", owner_worker_id="w"), lease_seconds=lease_seconds)
    await asyncio.sleep(0.01)
    admission = await runs.admit_run(
        create("r2", owner_worker_id="w2", multitask_strategy=strategy), grace_seconds=0
    )
    assert [run.run_id for run in admission.interrupted] == ["r1"]


async def test_a_lease_is_expired_only_after_the_grace(runs: RunRepository) -> None:
    await runs.admit_run(create("r1", owner_worker_id="w"), lease_seconds=-5)
    new = create("r2", owner_worker_id="w2", multitask_strategy="interrupt")
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(new)
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(new, grace_seconds=5.5)
    assert (await runs.admit_run(new, grace_seconds=4.5)).interrupted


@INTERRUPTING
@pytest.mark.parametrize("worker", ["w", "w2"])
async def test_a_reservation_is_taken_only_when_its_lease_is_expired(
    runs: RunRepository, strategy: str, worker: str
) -> None:
    new = create("r2", owner_worker_id=worker, multitask_strategy=strategy)
    for lease in (60, None):
        await runs.admit_run(
            create("r1", owner_worker_id="w", operation_kind="compact"), lease_seconds=lease
        )
        with pytest.raises(ActiveRunConflictError) as refused:
            await runs.admit_run(new)
        assert refused.value.reason == "reservation"
        assert not hasattr(refused.value, "sqlstate")
        await runs.delete_run("r1")
    await runs.admit_run(
        create("r1", owner_worker_id="w", operation_kind="compact"), lease_seconds=-60
    )
    assert (await runs.admit_run(new)).interrupted


async def test_runs_beside_the_slot_are_not_interrupted(runs: RunRepository) -> None:
    await runs.create_run(create("plain", status="running"))
    await runs.admit_run(create("r1"))
    admission = await runs.admit_run(create("r2", multitask_strategy="interrupt"))
    assert [run.run_id for run in admission.interrupted] == ["r1"]
    assert await status(runs, "plain") == "running"


@pytest.mark.engines(
    "sqlite", "postgres", why="DeerFlow has no MySQL databases that could be adopted"
)
async def test_where_deerflows_index_stands_a_plain_run_holds_the_thread(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    raw_sql(
        "CREATE UNIQUE INDEX uq_runs_thread_active ON runs (thread_id) "
        "WHERE status IN ('pending', 'running')"
    )
    await runs.create_run(create("plain", owner_worker_id="w"))
    with pytest.raises(ActiveRunConflictError) as refused:
        await runs.create_run(create("plain2"))
    assert refused.value.reason == "active_run"
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(create("r1"))
    with pytest.raises(ActiveRunConflictError):
        await runs.put_run(create("r1"))
    admission = await runs.admit_run(create("r1", multitask_strategy="interrupt"))
    assert [run.run_id for run in admission.interrupted] == ["plain"]


async def test_the_same_key_returns_the_run_that_it_made_first(runs: RunRepository) -> None:
    first = await runs.admit_run(create("r1", idempotency_key="k"))
    for strategy in ("reject", "interrupt"):
        again = await runs.admit_run(create("r2", idempotency_key="k", multitask_strategy=strategy))
        assert again.reused
        assert again.run == first.run
        assert again.interrupted == []
    assert (await runs.admit_run(create("r1", idempotency_key="k"))).reused
    await runs.update_run_status("r1", "success")
    late = await runs.admit_run(create("r3", idempotency_key="k"))
    assert (late.reused, late.run.run_id, late.run.status) == (True, "r1", "success")
    assert await runs.count_runs() == 1


async def test_a_taken_id_is_a_duplicate(runs: RunRepository) -> None:
    await runs.create_run(create("r1", "t2"))
    for strategy in ("reject", "interrupt"):
        with pytest.raises(DuplicateIdError):
            await runs.admit_run(create("r1", multitask_strategy=strategy))


async def test_what_cannot_be_admitted(runs: RunRepository) -> None:
    for fields, named in (
        ({"multitask_strategy": "enqueue"}, "not supported"),
        ({"multitask_strategy": "other"}, "multitask_strategy"),
        ({"status": "success"}, "status"),
    ):
        with pytest.raises(InvalidValueError, match=named):
            await runs.admit_run(create(**fields))
    assert await runs.count_runs() == 0


async def test_seconds_are_numbers(runs: RunRepository) -> None:
    wrong: list[Any] = ["1", True, float("nan"), float("inf"), None, 1e12]
    for value in wrong:
        with pytest.raises(InvalidValueError, match="grace_seconds"):
            await runs.admit_run(create(), grace_seconds=value)
        with pytest.raises(InvalidValueError, match="lease_seconds"):
            await runs.renew_lease("r", owner_worker_id="w", lease_seconds=value)
    with pytest.raises(InvalidValueError, match="grace_seconds"):
        await runs.list_expired_inflight(grace_seconds=-1)


async def test_admission_in_a_session_lasts_with_its_commit(
    database: Database, other: Database
) -> None:
    elsewhere = build_run_repository(other)
    await elsewhere.admit_run(create("old", owner_worker_id="w"), lease_seconds=60)
    async with database.session() as session:
        mine = build_run_repository(session)
        await mine.create_run(create("before", "t2"))
        with pytest.raises(ActiveRunConflictError):
            await mine.admit_run(create("r1", multitask_strategy="interrupt"))
        with pytest.raises(ActiveRunConflictError):
            await mine.admit_run(create("r1"))
        admission = await mine.admit_run(
            create("r1", owner_worker_id="w", multitask_strategy="interrupt")
        )
        assert admission.interrupted
        assert await status(elsewhere, "old") == "pending"
        assert await elsewhere.get_run("r1") is None
        await session.commit()
    assert await status(elsewhere, "old") == "interrupted"
    assert await status(elsewhere, "before") == "pending"


async def test_a_conflict_after_an_interruption_undoes_the_interruption(
    session: Session, runs: RunRepository
) -> None:
    await runs.create_run(create("taken", "t2"))
    await runs.admit_run(create("old"))
    mine = build_run_repository(session)
    with pytest.raises(DuplicateIdError):
        await mine.admit_run(create("taken", multitask_strategy="interrupt"))
    await session.commit()
    assert await status(runs, "old") == "pending"
    with pytest.raises(DuplicateIdError):
        await runs.admit_run(create("taken", multitask_strategy="interrupt"))
    assert await status(runs, "old") == "pending"


# -- several processes -------------------------------------------------------------------------


async def test_one_of_several_processes_is_admitted(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    said = race(
        "admit",
        [
            {"worker": f"w{n}", "times": 5, "strategy": "reject", "lease_seconds": 60}
            for n in range(4)
        ],
    )
    assert sum(len(each["admitted"]) for each in said) == 1
    refused = [reason for each in said for reason in each["refused"]]
    assert refused == ["active_run"] * 19


async def test_several_processes_interrupt_each_other_in_turn(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    said = race(
        "admit",
        [
            {"worker": f"w{n}", "times": 10, "strategy": "interrupt", "lease_seconds": None}
            for n in range(3)
        ],
    )
    admitted = [name for each in said for name in each["admitted"]]
    interrupted = [name for each in said for name in each["interrupted"]]
    assert [each["refused"] for each in said] == [[], [], []]
    assert len(admitted) == 30
    # Each run but the last one was interrupted, by exactly one other.
    assert len(interrupted) == len(set(interrupted)) == 29
    listed = await runs.list_runs_by_thread("t")
    assert sorted(run.status for run in listed) == ["interrupted"] * 29 + ["pending"]


async def test_live_workers_never_interrupt_each_other(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    said = race(
        "admit",
        [
            {"worker": f"w{n}", "times": 8, "strategy": "interrupt", "lease_seconds": 60}
            for n in range(3)
        ],
    )
    winners = [each for each in said if each["admitted"]]
    assert len(winners) == 1
    assert len(winners[0]["admitted"]) == 8
    assert len(winners[0]["interrupted"]) == 7
    for each in said:
        if each is not winners[0]:
            assert each["refused"] == ["other_worker"] * 8


async def test_one_key_makes_one_run_across_processes(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    said = race("admit_with_key", [f"w{n}" for n in range(4)])
    assert len({run_id for run_id, _ in said}) == 1
    assert sorted(reused for _, reused in said) == [False, True, True, True]
    assert await runs.count_runs() == 1


# -- put ------------------------------------------------------------------------------------------


async def test_put_takes_the_threads_slot(runs: RunRepository) -> None:
    assert await runs.put_run(create("r1"))
    with pytest.raises(ActiveRunConflictError) as refused:
        await runs.put_run(create("r2"))
    assert refused.value.sqlstate == "23505"
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(create("r2"))
    assert await runs.put_run(create("r1", status="success"))
    assert await runs.put_run(create("r2"))


async def test_put_again_replaces_what_the_run_was_created_with(runs: RunRepository) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    await runs.put_run(create("r1", status="running", created_time=day, error="e", user_id="u"))
    await runs.update_run_progress("r1", total_tokens=5)
    await runs.request_cancel("r1", action="rollback")
    new = create(
        "r1",
        status="running",
        model_name="m",
        metadata={"a": 1},
        kwargs=1.0,
        owner_worker_id="w",
        idempotency_key="k",
    )
    for _ in range(2):
        assert await runs.put_run(new)
        run = await runs.get_run("r1")
        assert run is not None
        assert (run.model_name, run.metadata, run.kwargs) == ("m", {"a": 1}, 1.0)
        assert (run.error, run.user_id, run.owner_worker_id) == (None, None, "w")
        assert (run.created_time, run.total_tokens, run.cancel_action) == (day, 5, "rollback")


async def test_put_gives_a_plain_run_the_slot(runs: RunRepository) -> None:
    await runs.create_run(create("r1"))
    await runs.put_run(create("r1"))
    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(create("r2"))
    await runs.create_run(create("r3"))
    with pytest.raises(ActiveRunConflictError):
        await runs.put_run(create("r3"))


async def test_put_with_a_key_of_another_run(runs: RunRepository) -> None:
    await runs.put_run(create("r1", idempotency_key="k"))
    await runs.put_run(create("r2", "t2"))
    for taken in (create("r2", "t2", idempotency_key="k"), create("r3", "t3", idempotency_key="k")):
        with pytest.raises(IdempotencyConflictError) as refused:
            await runs.put_run(taken)
        assert refused.value.existing.run_id == "r1"


async def test_a_put_that_conflicts_leaves_the_transaction_usable(session: Session) -> None:
    runs = build_run_repository(session)
    await runs.put_run(create("r1"))
    await runs.create_run(create("r2"))
    for taken in ("r2", "r3"):
        with pytest.raises(ActiveRunConflictError):
            await runs.put_run(create(taken))
    await runs.put_run(create("r4", "t2"))
    await session.commit()
    assert await runs.count_runs() == 3
