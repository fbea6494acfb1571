"""The startup assembly: one object with everything, orphans ended, all of it closed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deerstore.config import AppConfig
from deerstore.gateway import gateway_runtime
from deerstore.repositories import (
    RunCreate,
    ThreadMetaCreate,
    build_run_repository,
    build_thread_meta_repository,
)

if TYPE_CHECKING:
    from deerstore.config import StorageConfig


async def test_it_carries_all_parts_over_one_database(config: StorageConfig) -> None:
    """On an empty database: the schema is made, and every part works."""
    async with gateway_runtime(AppConfig(storage=config)) as runtime:
        await runtime.thread_store.create("t", user_id="ada")
        run = await runtime.run_manager.create_or_reject("t", user_id="ada")
        await runtime.run_event_store.put(
            thread_id="t", run_id=run.run_id, event_type="x", category="trace"
        )
        await runtime.feedback_repo.upsert(
            run_id=run.run_id, thread_id="t", rating=1, user_id="ada"
        )
        assert await runtime.user_store.count_users() == 0
        assert await runtime.checkpointer.aget_tuple({"configurable": {"thread_id": "t"}}) is None
        await runtime.store.aput(("memories",), "k", {"v": 1})
        row = await runtime.run_store.get(run.run_id, user_id="ada")
        assert row is not None
        assert row["status"] == "pending"
        async with runtime.session_factory() as session:
            assert await build_run_repository(session).get_run(run.run_id) is not None


async def test_orphans_and_their_threads_become_errors(config: StorageConfig) -> None:
    """A run that a dead worker left, and the thread that still shows it as running."""
    async with gateway_runtime(config) as runtime:
        runs = build_run_repository(runtime.persistence.database)
        threads = build_thread_meta_repository(runtime.persistence.database)
        for thread, state in (("t", "running"), ("u", "interrupted")):
            await threads.create_thread_meta(ThreadMetaCreate(thread_id=thread, status=state))
            await runs.create_run(RunCreate(run_id=thread, thread_id=thread, status="running"))
    async with gateway_runtime(config) as runtime:
        for thread, state in (("t", "error"), ("u", "interrupted")):
            run = await runtime.run_store.get(thread, user_id=None)
            row = await runtime.thread_store.get(thread, user_id=None)
            assert run is not None
            assert row is not None
            assert (run["status"], row["status"]) == ("error", state)


async def test_what_was_admitted_ends_with_the_block(config: StorageConfig) -> None:
    """Also when the block fails: a run that nobody executes is interrupted."""
    admitted: list[str] = []

    async def fail() -> None:
        async with gateway_runtime(config, drain_seconds=0) as runtime:
            admitted.append((await runtime.run_manager.create_or_reject("t")).run_id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with gateway_runtime(config) as runtime:
        row = await runtime.run_store.get(admitted[0], user_id=None)
        assert row is not None
        assert row["status"] == "interrupted"
