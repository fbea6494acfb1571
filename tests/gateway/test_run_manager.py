"""The life of a run: decided in the database, carried out in the process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import ActiveRunConflictError, ConnectionLostError, InvalidValueError
from deerstore.gateway import RunManager
from deerstore.gateway.runs.outcome import CancelOutcome
from deerstore.persistence import create_persistence_from_storage_config
from deerstore.repositories import LeaseRenewal, RunCreate, build_run_repository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from deerstore.config import StorageConfig
    from deerstore.persistence import AppPersistence
    from deerstore.repositories import Run, RunRepository

MakeManager = Any


@pytest.fixture
def runs(persistence: AppPersistence) -> RunRepository:
    """The table of runs, as another process sees it."""
    return build_run_repository(persistence.database)


@pytest.fixture
async def make(persistence: AppPersistence) -> AsyncIterator[MakeManager]:
    """Makes managers on one bundle, and shuts each down at the end."""
    made: list[RunManager] = []

    def manager(**settings: Any) -> RunManager:
        made.append(RunManager(persistence.session_factory, **settings))
        return made[-1]

    yield manager
    for each in made:
        await each.shutdown(drain_seconds=0)


@pytest.fixture
async def elsewhere(migrated_config: StorageConfig) -> AsyncIterator[MakeManager]:
    """Makes a manager on a bundle of its own, as another worker has it."""
    bundle = await create_persistence_from_storage_config(migrated_config)
    made: list[RunManager] = []

    def manager(**settings: Any) -> RunManager:
        made.append(RunManager(bundle.session_factory, **settings))
        return made[-1]

    yield manager
    for each in made:
        await each.shutdown(drain_seconds=0)
    await bundle.aclose()


async def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while True:
            met = condition()
            if asyncio.iscoroutine(met):
                met = await met
            if met:
                return
            await asyncio.sleep(0.02)


async def status(runs: RunRepository, run_id: str) -> str:
    run = await runs.get_run(run_id)
    assert run is not None
    return run.status


class TestAdmission:
    async def test_a_run_is_admitted_pending_owned_and_leased(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make(worker_id="w1")
        run = await manager.create_or_reject(
            "t", "assistant", user_id="ada", metadata={"a": 1}, kwargs={"b": [2]}, model_name=" m "
        )
        stored = await runs.get_run(run.run_id)
        assert stored == run
        assert stored is not None
        assert (stored.status, stored.owner_worker_id, stored.user_id) == ("pending", "w1", "ada")
        assert (stored.metadata, stored.kwargs, stored.model_name) == ({"a": 1}, {"b": [2]}, "m")
        assert stored.lease_expires_at is not None

    async def test_reject_refuses_while_another_run_is_active(
        self, make: MakeManager, elsewhere: MakeManager
    ) -> None:
        first = await make().create_or_reject("t")
        with pytest.raises(ActiveRunConflictError) as caught:
            await elsewhere().create_or_reject("t")
        assert (caught.value.reason, caught.value.sqlstate) == ("active_run", "23505")
        assert first.status == "pending"

    @pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
    async def test_an_own_run_makes_room_and_is_told(
        self, make: MakeManager, runs: RunRepository, strategy: str
    ) -> None:
        manager = make()
        old = await manager.create_or_reject("t")
        stopped = manager.abort_event(old.run_id)
        new = await manager.create_or_reject("t", multitask_strategy=strategy)
        assert stopped.is_set()
        assert manager.abort_action(old.run_id) == strategy
        assert await status(runs, old.run_id) == "interrupted"
        assert await status(runs, new.run_id) == "pending"

    async def test_a_live_run_of_another_worker_is_left_alone(
        self, make: MakeManager, elsewhere: MakeManager, runs: RunRepository
    ) -> None:
        old = await make().create_or_reject("t")
        with pytest.raises(ActiveRunConflictError) as caught:
            await elsewhere().create_or_reject("t", multitask_strategy="interrupt")
        assert caught.value.reason == "other_worker"
        assert not hasattr(caught.value, "sqlstate")
        assert await status(runs, old.run_id) == "pending"

    async def test_enqueue_is_not_supported(self, make: MakeManager) -> None:
        with pytest.raises(InvalidValueError, match="not supported"):
            await make().create_or_reject("t", multitask_strategy="enqueue")

    async def test_the_same_key_returns_the_run_that_it_made_first(
        self, make: MakeManager, elsewhere: MakeManager
    ) -> None:
        first = await make().create_or_reject("t", idempotency_key="k")
        again = await elsewhere().create_or_reject("t", idempotency_key="k")
        assert again.run_id == first.run_id

    async def test_a_caller_cancelled_at_any_moment_blocks_no_thread(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        for delay in range(12):
            thread = f"t{delay}"
            creating = asyncio.create_task(manager.create_or_reject(thread))
            await asyncio.sleep(delay * 0.0005)
            creating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                run = await creating
                await manager.finish(run.run_id, status="success")
            await until(lambda: not manager._background)
            assert await runs.list_inflight() == []
            assert (await manager.create_or_reject(thread)).status == "pending"
            for inflight in await runs.list_inflight():
                await manager.finish(inflight.run_id, status="success")


class TestExecution:
    async def test_a_run_starts_progresses_and_finishes_with_its_figures(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        assert await manager.start(run.run_id)
        assert not await manager.start(run.run_id)
        assert await manager.progress(run.run_id, total_tokens=3)
        outcome = await manager.finish(
            run.run_id, status="success", total_tokens=5, last_ai_message="done"
        )
        assert (outcome.finalized, outcome.cancel_action) == (True, None)
        ended = await runs.get_run(run.run_id)
        assert ended is not None
        assert (ended.status, ended.total_tokens, ended.last_ai_message) == ("success", 5, "done")
        assert not manager.holds_lease(run.run_id)

    async def test_a_finished_thread_takes_the_next_run(self, make: MakeManager) -> None:
        manager = make()
        first = await manager.create_or_reject("t")
        await manager.finish(first.run_id, status="success")
        assert (await manager.create_or_reject("t")).run_id != first.run_id

    async def test_what_a_plain_query_did_is_honoured(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        assert await runs.update_run_status(run.run_id, "timeout")
        assert not await manager.start(run.run_id)
        outcome = await manager.finish(run.run_id, status="success")
        assert not outcome.finalized
        assert await status(runs, run.run_id) == "timeout"

    async def test_a_task_that_fails_ends_its_run_as_an_error(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        await manager.start(run.run_id)

        async def work() -> None:
            raise ZeroDivisionError

        manager.attach(run.run_id, asyncio.create_task(work()))
        await until(lambda: _is(runs, run, "error"))
        ended = await runs.get_run(run.run_id)
        assert ended is not None
        assert ended.error == "The run's task failed: ZeroDivisionError."


class TestCancel:
    async def test_an_unknown_run(self, make: MakeManager) -> None:
        assert await make().cancel("nowhere") == "unknown"

    @pytest.mark.parametrize("final", ["success", "error", "timeout"])
    async def test_an_ended_run(self, make: MakeManager, final: str) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        await manager.finish(run.run_id, status=final)
        assert await manager.cancel(run.run_id) == "not_cancellable"

    async def test_an_own_run_without_a_task_is_interrupted_at_once(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        assert await manager.cancel(run.run_id) is CancelOutcome.CANCELLED
        assert await status(runs, run.run_id) == "interrupted"
        assert await manager.cancel(run.run_id) == "cancelled"

    async def test_an_own_task_is_stopped_and_keeps_the_slot_until_it_has_ended(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        await manager.start(run.run_id)
        may_end = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await may_end.wait()
                await manager.finish(run.run_id, status="interrupted", total_tokens=7)
                await manager.finish(run.run_id, status="error", error="Rolled back by the user.")

        task = asyncio.create_task(work())
        manager.attach(run.run_id, task)
        await asyncio.sleep(0)
        assert await manager.cancel(run.run_id, action="rollback") == "cancelled"
        assert await manager.cancel(run.run_id, action="interrupt") == "cancelled"
        assert manager.abort_action(run.run_id) == "rollback"
        with pytest.raises(ActiveRunConflictError):
            await manager.create_or_reject("t")
        may_end.set()
        await task
        ended = await runs.get_run(run.run_id)
        assert ended is not None
        assert (ended.status, ended.error, ended.total_tokens, ended.cancel_action) == (
            "error",
            "Rolled back by the user.",
            7,
            "rollback",
        )

    async def test_an_outcome_gives_way_to_a_recorded_cancel(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        await manager.start(run.run_id)
        assert await runs.request_cancel(run.run_id, action="interrupt") == "interrupt"
        for outcome in ("success", "error"):
            lost = await manager.finish(run.run_id, status=outcome)
            assert (lost.finalized, lost.cancel_action) == (False, "interrupt")
        assert (await manager.finish(run.run_id, status="interrupted")).finalized

    async def test_a_run_of_another_live_worker_hears_of_it_at_its_next_heartbeat(
        self, make: MakeManager, elsewhere: MakeManager, runs: RunRepository
    ) -> None:
        owner = elsewhere(lease_seconds=0.6)
        run = await owner.create_or_reject("t")
        await owner.start(run.run_id)
        stopped = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()

        owner.attach(run.run_id, asyncio.create_task(work()))
        assert await make().cancel(run.run_id) == "requested"
        async with asyncio.timeout(5):
            await stopped.wait()
        await until(lambda: _is(runs, run, "interrupted"))

    async def test_a_run_whose_lease_ran_out_is_taken_over(
        self, make: MakeManager, elsewhere: MakeManager, runs: RunRepository
    ) -> None:
        dead = elsewhere(lease_seconds=0.1, heartbeat=False)
        run = await dead.create_or_reject("t")
        await asyncio.sleep(0.4)
        assert await make(grace_seconds=0).cancel(run.run_id) == "taken_over"
        assert await status(runs, run.run_id) == "error"


class TestLeases:
    async def test_the_heartbeat_keeps_a_lease_alive(
        self, make: MakeManager, elsewhere: MakeManager
    ) -> None:
        owner = make(lease_seconds=0.6)
        run = await owner.create_or_reject("t")
        await asyncio.sleep(1.3)
        assert owner.holds_lease(run.run_id)
        assert await elsewhere(grace_seconds=0).reconcile_orphaned_inflight_runs() == []

    async def test_a_worker_that_cannot_renew_stops_writing(
        self, make: MakeManager, runs: RunRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = make(lease_seconds=0.3)

        async def unreachable(*_: Any, **__: Any) -> LeaseRenewal:
            raise ConnectionLostError("the server is gone")

        monkeypatch.setattr(type(manager._runs_table), "renew_lease", unreachable)
        run = await manager.create_or_reject("t")
        await manager.start(run.run_id)
        stopped = manager.abort_event(run.run_id)
        async with asyncio.timeout(3):
            await stopped.wait()
        assert not manager.holds_lease(run.run_id)
        assert not await manager.progress(run.run_id, total_tokens=9)
        assert not (await manager.finish(run.run_id, status="success")).finalized
        assert await status(runs, run.run_id) == "running"

    async def test_a_run_that_was_taken_over_is_told_so(
        self, make: MakeManager, elsewhere: MakeManager
    ) -> None:
        owner = make(lease_seconds=0.2, heartbeat=False)
        run = await owner.create_or_reject("t")
        await asyncio.sleep(0.4)
        (ended,) = await elsewhere(grace_seconds=0).reconcile_orphaned_inflight_runs()
        stopped = owner.abort_event(run.run_id)
        await owner.renew_leases()
        assert ended.run_id == run.run_id
        assert stopped.is_set()
        assert not owner.holds_lease(run.run_id)


class TestReconciliation:
    async def test_runs_without_a_live_owner_become_errors(
        self, make: MakeManager, elsewhere: MakeManager, runs: RunRepository
    ) -> None:
        await runs.create_run(RunCreate(run_id="plain", thread_id="p", status="running"))
        dead = elsewhere(lease_seconds=0.1, heartbeat=False)
        orphan = await dead.create_or_reject("t")
        live = await elsewhere().create_or_reject("u")
        await asyncio.sleep(0.4)
        manager = make(grace_seconds=0)
        ended = await manager.reconcile_orphaned_inflight_runs(error="worker lost")
        assert {run.run_id for run in ended} == {"plain", orphan.run_id}
        assert {(run.status, run.error) for run in ended} == {("error", "worker lost")}
        assert await status(runs, live.run_id) == "pending"
        assert await manager.reconcile_orphaned_inflight_runs() == []

    async def test_before_leaves_out_younger_rows(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        created = await runs.create_run(RunCreate(run_id="r", thread_id="t"))
        manager = make()
        early = "2001-01-01T00:00:00Z"
        assert await manager.reconcile_orphaned_inflight_runs(before=early) == []
        (ended,) = await manager.reconcile_orphaned_inflight_runs(before=created.created_time)
        assert ended.run_id == "r"

    async def test_a_run_that_renewed_meanwhile_lives(
        self, make: MakeManager, elsewhere: MakeManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        owner = elsewhere(lease_seconds=1, heartbeat=False)
        run = await owner.create_or_reject("t")
        manager = make(grace_seconds=0)

        async def stale(*_: Any, **__: Any) -> list[Run]:
            return [run]

        monkeypatch.setattr(type(manager._runs_table), "list_expired_inflight", stale)
        assert await manager.reconcile_orphaned_inflight_runs() == []


class TestShutdown:
    async def test_running_tasks_are_drained(self, make: MakeManager, runs: RunRepository) -> None:
        manager = make()
        run = await manager.create_or_reject("t")
        await manager.start(run.run_id)

        async def work() -> None:
            await asyncio.sleep(0.2)
            await manager.finish(run.run_id, status="success")

        manager.attach(run.run_id, asyncio.create_task(work()))
        await manager.shutdown(drain_seconds=5)
        assert await status(runs, run.run_id) == "success"

    async def test_what_does_not_end_is_stopped_and_interrupted(
        self, make: MakeManager, runs: RunRepository
    ) -> None:
        manager = make()
        busy = await manager.create_or_reject("t")
        idle = await manager.create_or_reject("u")
        task = asyncio.create_task(asyncio.sleep(60))
        manager.attach(busy.run_id, task)
        await manager.shutdown(drain_seconds=0.05, abort_seconds=2)
        assert task.cancelled()
        for run in (busy, idle):
            assert await status(runs, run.run_id) == "interrupted"
        with pytest.raises(Exception, match="shutting down"):
            await manager.create_or_reject("v")
        await manager.shutdown()


async def _is(runs: RunRepository, run: Run, wanted: str) -> bool:
    return await status(runs, run.run_id) == wanted


@pytest.mark.parametrize(
    ("setting", "value"), [("lease_seconds", 0), ("grace_seconds", -1), ("worker_id", "w" * 129)]
)
def test_settings_are_checked(setting: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=setting):
        RunManager(lambda: None, **{setting: value})  # type: ignore[arg-type,return-value]
