"""Leases, cancel requests and outcomes: who is told what, also when they race."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import InvalidValueError
from deerstore.repositories import (
    LeaseRenewal,
    RunCreate,
    RunFinalization,
    build_run_repository,
)
from tests.repositories.test_runs import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database
    from deerstore.repositories import Run, RunRepository

FINAL = ("success", "error", "timeout", "interrupted")


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


def create(run_id: str = "r", thread_id: str = "t", **fields: Any) -> RunCreate:
    return RunCreate(run_id=run_id, thread_id=thread_id, **fields)


async def stored(runs: RunRepository, run_id: str = "r") -> Run:
    run = await runs.get_run(run_id)
    assert run is not None
    return run


async def test_the_owner_renews(runs: RunRepository) -> None:
    await runs.admit_run(create(owner_worker_id="w"), lease_seconds=1)
    for state in ("pending", "running"):
        await runs.update_run_status("r", state)
        before = datetime.now(UTC)
        renewed = await runs.renew_lease("r", owner_worker_id="w", lease_seconds=90)
        assert renewed == LeaseRenewal(renewed=True, cancel_action=None)
        lease = (await stored(runs)).lease_expires_at
        assert lease is not None
        assert timedelta(seconds=89.9) < lease - before < timedelta(seconds=95)


async def test_an_expired_lease_may_be_renewed_while_the_run_is_active(
    runs: RunRepository,
) -> None:
    await runs.admit_run(create(owner_worker_id="w"), lease_seconds=-60)
    assert (await runs.renew_lease("r", owner_worker_id="w", lease_seconds=60)).renewed
    assert await runs.list_expired_inflight() == []


async def test_nobody_else_renews(runs: RunRepository) -> None:
    await runs.admit_run(create("r", owner_worker_id="w"), lease_seconds=60)
    await runs.create_run(create("r2"))
    before = await stored(runs)
    for run_id, worker in (("r", "W"), ("r", "w "), ("r2", "w"), ("r3", "w")):
        renewal = await runs.renew_lease(run_id, owner_worker_id=worker, lease_seconds=60)
        assert renewal == LeaseRenewal(renewed=False)
    assert await stored(runs) == before


async def test_a_finished_run_is_not_renewed(runs: RunRepository) -> None:
    for final in FINAL:
        await runs.create_run(create(final, status=final, owner_worker_id="w"))
        renewal = await runs.renew_lease(final, owner_worker_id="w", lease_seconds=60)
        assert renewal == LeaseRenewal(renewed=False)
        end = datetime(2030, 1, 1, tzinfo=UTC)
        assert not (await runs.set_lease(final, owner_worker_id="w", lease_expires_at=end)).renewed
        assert (await stored(runs, final)).lease_expires_at is None


async def test_a_renewal_reports_a_cancel_request(runs: RunRepository) -> None:
    await runs.admit_run(create(owner_worker_id="w"), lease_seconds=60)
    await runs.request_cancel("r", action="rollback")
    renewal = await runs.renew_lease("r", owner_worker_id="w", lease_seconds=60)
    assert renewal == LeaseRenewal(renewed=True, cancel_action="rollback")


async def test_a_lease_may_be_set_to_a_time(runs: RunRepository) -> None:
    await runs.create_run(create(owner_worker_id="w"))
    end = datetime(2030, 1, 1, 0, 0, 0, 7, tzinfo=UTC)
    for given in (end, "2030-01-01T02:00:00.000007+02:00", end.replace(tzinfo=None)):
        assert (await runs.set_lease("r", owner_worker_id="w", lease_expires_at=given)).renewed
        assert (await stored(runs)).lease_expires_at == end


async def test_the_first_action_wins(runs: RunRepository) -> None:
    await runs.create_run(create(status="running"))
    assert await runs.request_cancel("r", action="rollback") == "rollback"
    run = await stored(runs)
    assert run.cancel_requested_at is not None
    assert abs(run.cancel_requested_at - datetime.now(UTC)) < timedelta(seconds=5)
    assert await runs.request_cancel("r", action="interrupt") == "rollback"
    again = await stored(runs)
    assert again.cancel_action == "rollback"
    assert again.cancel_requested_at == run.cancel_requested_at


async def test_a_finished_run_cannot_be_cancelled(runs: RunRepository) -> None:
    for final in FINAL:
        await runs.create_run(create(final, status=final))
        assert await runs.request_cancel(final, action="interrupt") is None
        assert (await stored(runs, final)).cancel_action is None
        assert await runs.request_cancel("missing", action="interrupt") is None


async def test_unknown_actions_are_refused(runs: RunRepository) -> None:
    unknown: list[Any] = ["stop", "", None]
    for action in unknown:
        with pytest.raises(InvalidValueError, match="action"):
            await runs.request_cancel("r", action=action)


async def test_an_outcome_is_written_once(runs: RunRepository) -> None:
    for status in FINAL:
        for active in ("pending", "running"):
            name = f"{status}-{active}"
            await runs.admit_run(create(name))
            await runs.update_run_status(name, active)
            outcome = await runs.finalize_run(name, status=status, error="e", stop_reason="s")
            assert outcome == RunFinalization(finalized=True, cancel_action=None)
            run = await stored(runs, name)
            assert (run.status, run.error, run.stop_reason) == (status, "e", "s")
            late = await runs.finalize_run(name, status="error")
            assert late == RunFinalization(finalized=False)
            assert (await stored(runs, name)).status == status


async def test_an_outcome_gives_way_to_a_cancel_request(runs: RunRepository) -> None:
    await runs.create_run(create(status="running"))
    await runs.request_cancel("r", action="interrupt")
    outcome = await runs.finalize_run("r", status="success")
    assert outcome == RunFinalization(finalized=False, cancel_action="interrupt")
    assert (await stored(runs)).status == "running"
    # This is how a cancelled run ends.
    assert await runs.update_run_status("r", "interrupted")
    assert await runs.update_run_status("r", "error")


async def test_no_run_has_no_outcome(runs: RunRepository) -> None:
    assert await runs.finalize_run("r", status="error") == RunFinalization(finalized=False)


async def test_an_outcome_is_not_an_active_state(runs: RunRepository) -> None:
    for status in ("pending", "running"):
        with pytest.raises(InvalidValueError, match="status"):
            await runs.finalize_run("r", status=status)


async def test_a_run_without_a_live_lease_is_claimed(runs: RunRepository) -> None:
    leases = {"none": None, "expired": -11, "grace": -9, "live": 60}
    for name, lease in leases.items():
        await runs.admit_run(create(name, name, owner_worker_id="w"), lease_seconds=lease)
    for name in leases:
        claimed = await runs.claim_expired_run(name, error="lost", stop_reason="orphan")
        assert claimed == (name in ("none", "expired"))
        run = await stored(runs, name)
        assert (run.status, run.error, run.stop_reason) == (
            ("error", "lost", "orphan") if claimed else ("pending", None, None)
        )
    assert not await runs.claim_expired_run("none", error="again")
    assert await runs.claim_expired_run("grace", grace_seconds=8.5, error="lost")
    assert not await runs.claim_expired_run("missing", error="lost")


async def test_a_finished_run_is_not_claimed(runs: RunRepository) -> None:
    for final in FINAL:
        await runs.create_run(create(final, status=final))
        assert not await runs.claim_expired_run(final, error="lost")
        assert (await stored(runs, final)).error is None


async def test_a_claim_frees_the_slot(runs: RunRepository) -> None:
    await runs.admit_run(create("r1"))
    assert await runs.claim_expired_run("r1", error="lost")
    await runs.admit_run(create("r2"))


async def test_expired_runs_oldest_first(runs: RunRepository, raw_sql: Callable[..., Any]) -> None:
    at = "2020-01-01 00:00:00.000000"
    raw_sql(INSERT, "old", "t0", "running", "{}", "{}", at, at)
    for name, lease in (("b", -11), ("a", None), ("grace", -9), ("live", 60)):
        await runs.admit_run(create(name, name), lease_seconds=lease)
        await runs.update_run_status(name, "running")
    await runs.create_run(create("done", status="success"))
    found = await runs.list_expired_inflight()
    assert [run.run_id for run in found] == ["old", "b", "a"]
    found = await runs.list_expired_inflight(grace_seconds=8)
    assert [run.run_id for run in found] == ["old", "b", "a", "grace"]
    found = await runs.list_expired_inflight(before=datetime(2021, 1, 1, tzinfo=UTC))
    assert [run.run_id for run in found] == ["old"]


async def test_a_renewal_that_is_not_committed_yet_holds_off_a_claim(
    database: Database, other: Database
) -> None:
    owner, claimer = build_run_repository(database), build_run_repository(other)
    await owner.admit_run(create(owner_worker_id="w"), lease_seconds=-60)
    async with database.session() as session:
        renewal = await build_run_repository(session).renew_lease(
            "r", owner_worker_id="w", lease_seconds=60
        )
        assert renewal.renewed
        claim = asyncio.create_task(claimer.claim_expired_run("r", error="lost"))
        done, _ = await asyncio.wait({claim}, timeout=0.3)
        assert not done
        await session.commit()
    assert await claim is False
    assert (await stored(owner)).status == "pending"


async def test_a_cancel_request_that_is_not_committed_yet_holds_off_an_outcome(
    database: Database, other: Database
) -> None:
    owner, canceller = build_run_repository(database), build_run_repository(other)
    await owner.create_run(create(status="running", owner_worker_id="w"))
    async with other.session() as session:
        await build_run_repository(session).request_cancel("r", action="rollback")
        finish = asyncio.create_task(owner.finalize_run("r", status="success"))
        done, _ = await asyncio.wait({finish}, timeout=0.3)
        assert not done
        await session.commit()
    assert await finish == RunFinalization(finalized=False, cancel_action="rollback")
    async with database.session() as session:
        await build_run_repository(session).update_run_status("r", "interrupted")
        late = asyncio.create_task(canceller.request_cancel("r", action="interrupt"))
        renewal = asyncio.create_task(
            canceller.renew_lease("r", owner_worker_id="w", lease_seconds=5)
        )
        done, _ = await asyncio.wait({late, renewal}, timeout=0.3)
        assert not done
        await session.commit()
    assert await late is None
    assert not (await renewal).renewed


async def test_completion_and_cancel_race_and_exactly_one_wins(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    names = [f"r{n}" for n in range(60)]
    for name in names:
        await runs.create_run(create(name, name, status="running"))
    finished, cancelled = race(
        "finish_or_cancel", [["finish", *names], ["cancel", *reversed(names)]]
    )
    outcomes = dict(zip(names, finished, strict=True))
    requests = dict(zip(reversed(names), cancelled, strict=True))
    for name in names:
        done, told = outcomes[name]
        run = await stored(runs, name)
        if done:
            assert (told, requests[name], run.status, run.cancel_action) == (
                (None, None, "success", None)
            )
        else:
            assert (told, requests[name], run.status, run.cancel_action) == (
                ("interrupt", "interrupt", "running", "interrupt")
            )


async def test_renewal_and_claim_race_and_exactly_one_wins(
    runs: RunRepository, race: Callable[..., list[Any]]
) -> None:
    names = [f"r{n}" for n in range(60)]
    for name in names:
        await runs.admit_run(create(name, name, owner_worker_id="w"), lease_seconds=-60)
    renewed, claimed = race("renew_or_claim", [["renew", *names], ["claim", *reversed(names)]])
    for name, kept, lost in zip(names, renewed, reversed(claimed), strict=True):
        assert kept != lost
        assert (await stored(runs, name)).status == ("pending" if kept else "error")
