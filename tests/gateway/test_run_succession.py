"""What is left when a run makes room for a newer one, and when a worker is started again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.gateway import RunManager, gateway_runtime
from deerstore.repositories import (
    RunCreate,
    ThreadMetaCreate,
    build_run_repository,
    build_thread_meta_repository,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from deerstore.config import StorageConfig
    from deerstore.persistence import AppPersistence
    from deerstore.repositories import RunRepository


@pytest.fixture
def runs(persistence: AppPersistence) -> RunRepository:
    return build_run_repository(persistence.database)


@pytest.fixture
async def manager(persistence: AppPersistence) -> AsyncIterator[RunManager]:
    made = RunManager(persistence.session_factory, worker_id="w")
    yield made
    await made.shutdown(drain_seconds=0)


async def status(runs: RunRepository, run_id: str) -> str:
    run = await runs.get_run(run_id)
    assert run is not None
    return run.status


class TestSuperseded:
    """A run of this worker that had to make room is wound up by it, in peace."""

    async def test_the_heartbeat_takes_no_lease_from_it(
        self, manager: RunManager, runs: RunRepository
    ) -> None:
        old = await manager.create_or_reject("t")
        await manager.create_or_reject("t", multitask_strategy="rollback")
        await manager.renew_leases()
        assert manager.holds_lease(old.run_id)
        assert manager.abort_action(old.run_id) == "rollback"
        assert (await manager.finish(old.run_id, status="interrupted", total_tokens=3)).finalized
        assert (await manager.finish(old.run_id, status="error", error="undone")).finalized
        assert await status(runs, old.run_id) == "error"

    async def test_its_outcome_gives_way_to_what_the_newer_run_asked_for(
        self, manager: RunManager
    ) -> None:
        old = await manager.create_or_reject("t")
        await manager.start(old.run_id)
        await manager.create_or_reject("t", multitask_strategy="rollback")
        outcome = await manager.finish(old.run_id, status="success")
        assert (outcome.finalized, outcome.cancel_action) == (False, "rollback")
        assert manager.abort_action(old.run_id) == "rollback"

    async def test_it_is_told_although_its_outcome_comes_at_the_same_moment(
        self, manager: RunManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The admission is committed, and its answer still under way."""
        old = await manager.create_or_reject("t")
        await manager.start(old.run_id)
        committed, go_on = asyncio.Event(), asyncio.Event()
        admit = manager._runs_table.admit_run

        async def slowly(*args: Any, **kwargs: Any) -> Any:
            admission = await admit(*args, **kwargs)
            committed.set()
            await go_on.wait()
            return admission

        monkeypatch.setattr(type(manager._runs_table), "admit_run", staticmethod(slowly))
        newer = asyncio.create_task(manager.create_or_reject("t", multitask_strategy="rollback"))
        await committed.wait()
        ending = asyncio.create_task(manager.finish(old.run_id, status="success"))
        renewal = asyncio.create_task(manager.renew_leases())
        await asyncio.sleep(0.2)
        go_on.set()
        outcome = await ending
        await renewal
        await newer
        assert (outcome.finalized, outcome.cancel_action) == (False, "rollback")
        assert manager.holds_lease(old.run_id)


async def test_shutdown_waits_for_what_a_task_writes_after_its_runs_end(
    manager: RunManager,
) -> None:
    run = await manager.create_or_reject("t")
    written = []

    async def execute() -> None:
        await manager.finish(run.run_id, status="success")
        await asyncio.sleep(0.1)
        written.append("title")

    task = asyncio.create_task(execute())
    manager.attach(run.run_id, task)
    await manager.shutdown(drain_seconds=5)
    assert written == ["title"]
    await task


class TestRestart:
    async def test_a_worker_ends_what_its_former_process_left(
        self, manager: RunManager, persistence: AppPersistence, runs: RunRepository
    ) -> None:
        """Its leases still run, and nobody will renew them; those of others are left alone."""
        mine = await manager.create_or_reject("t")
        await runs.admit_run(
            RunCreate(run_id="other", thread_id="u", owner_worker_id="x"), lease_seconds=60
        )
        again = RunManager(persistence.session_factory, worker_id="w")
        assert await again.reconcile_orphaned_inflight_runs() == []
        ended = await again.reconcile_orphaned_inflight_runs(restarted=True)
        assert [(run.run_id, run.status) for run in ended] == [(mine.run_id, "error")]
        assert await status(runs, "other") == "pending"
        held = await again.create_or_reject("t")
        assert await again.reconcile_orphaned_inflight_runs(restarted=True) == []
        assert await status(runs, held.run_id) == "pending"
        await again.shutdown(drain_seconds=0)

    async def test_a_thread_never_shows_a_run_that_has_ended(
        self, migrated_config: StorageConfig, persistence: AppPersistence
    ) -> None:
        """The process died after the run's outcome and before the thread's status."""
        runs = build_run_repository(persistence.database)
        threads = build_thread_meta_repository(persistence.database)
        shown = {"a": "success", "b": "error", "c": "interrupted", "d": "running", "e": None}
        for thread, run_status in shown.items():
            await threads.create_thread_meta(ThreadMetaCreate(thread_id=thread, status="running"))
            if run_status is not None:
                run = RunCreate(run_id=thread, thread_id=thread, owner_worker_id="x")
                await runs.admit_run(run, lease_seconds=60)
                await runs.update_run_status(thread, run_status)
        async with gateway_runtime(migrated_config, worker_id="w") as runtime:
            rows = [await runtime.thread_store.get(thread, user_id=None) for thread in shown]
        assert [row["status"] for row in rows if row] == [
            "idle",
            "error",
            "idle",
            "running",
            "idle",
        ]

    async def test_a_worker_that_dies_meanwhile_is_noticed(
        self, migrated_config: StorageConfig, persistence: AppPersistence
    ) -> None:
        """Once per lease; a row that never had one is left to whoever keeps it."""
        runs = build_run_repository(persistence.database)
        settings = {"lease_seconds": 0.3, "grace_seconds": 0}
        async with gateway_runtime(migrated_config, **settings) as runtime:
            await runs.create_run(RunCreate(run_id="plain", thread_id="p", status="running"))
            await runtime.thread_store.create("t", user_id=None)
            await runs.admit_run(
                RunCreate(run_id="dead", thread_id="t", owner_worker_id="x"), lease_seconds=0
            )
            await runtime.thread_store.update_status("t", "running", user_id=None)
            for _ in range(200):
                thread = await runtime.thread_store.get("t", user_id=None)
                if thread is not None and thread["status"] == "error":
                    break
                await asyncio.sleep(0.05)
            assert thread is not None
            assert (await status(runs, "dead"), thread["status"]) == ("error", "error")
            assert await status(runs, "plain") == "running"
