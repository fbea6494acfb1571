"""A thread's end on every surface, and the report of what would come back."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.persistence import create_persistence_from_storage_config
from deerstore.repositories import (
    FeedbackCreate,
    RunCreate,
    RunEventCreate,
    ThreadMetaCreate,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
)
from tests.persistence.states import place, put, state

if TYPE_CHECKING:
    from deerstore.persistence import AppPersistence


async def fill(persistence: AppPersistence, thread_id: str, user_id: str | None = None) -> None:
    async with persistence.transaction() as session:
        await build_thread_meta_repository(session).create_thread_meta(
            ThreadMetaCreate(thread_id=thread_id, user_id=user_id, metadata={"k": "v"})
        )
        run_id = f"run of {thread_id}"
        await build_run_repository(session).create_run(
            RunCreate(run_id=run_id, thread_id=thread_id, user_id=user_id)
        )
        events = build_run_event_repository(session)
        for number in range(3):
            await events.append(
                RunEventCreate(
                    thread_id=thread_id,
                    run_id=run_id,
                    user_id=user_id,
                    event_type="x",
                    category="message",
                    content=str(number),
                )
            )
        await build_feedback_repository(session).create_feedback(
            FeedbackCreate(
                feedback_id=f"f {thread_id}", run_id=run_id, thread_id=thread_id, rating=1
            )
        )
    config = await put(persistence.checkpointer, place(thread_id), state(a=[1], b="x"))
    await persistence.checkpointer.aput_writes(config, [("a", 1), ("b", 2)], "task")
    await put(persistence.checkpointer, place(thread_id, "sub"), state(a=[2]))
    await persistence.store.aput((thread_id,), "k", {})
    await persistence.store.aput((thread_id, "deep"), "k", {})
    await persistence.store.aput(("other", thread_id), "k", {})


FULL = {
    "feedback": 1,
    "run_events": 3,
    "runs": 1,
    "checkpoints": 2,
    "checkpoint_writes": 2,
    "store_items": 2,
    "threads_meta": 1,
}
NOTHING = dict.fromkeys(FULL, 0)


async def test_a_purged_thread_is_gone_from_every_surface(persistence: AppPersistence):
    await fill(persistence, "t")
    await fill(persistence, "t2")
    assert await persistence.purge_thread("t", include_store=True) == FULL
    assert await persistence.purge_thread("t", include_store=True) == NOTHING
    assert await persistence.checkpointer.aget_tuple(place("t")) is None
    assert await persistence.checkpointer.aget_tuple(place("t", "sub")) is None
    assert await persistence.store.asearch(("t",)) == []
    assert await persistence.store.aget(("other", "t"), "k") is not None
    report = await persistence.recovery_report()
    assert {surface.name: surface.rows for surface in report.surfaces} == {
        "checkpointer": 2,
        "store": 4,
        "runs": 1,
        "run_events": 3,
        "threads_meta": 1,
        "feedback": 1,
        "users": 0,
    }


async def test_the_store_is_left_alone_unless_it_is_asked_for(persistence: AppPersistence):
    await fill(persistence, "t")
    assert await persistence.purge_thread("t") == {**FULL, "store_items": 0}
    assert len(await persistence.store.asearch(("t",))) == 2


async def test_only_the_owner_s_thread_is_purged(persistence: AppPersistence):
    await fill(persistence, "ann's", "ann")
    await fill(persistence, "nobody's")
    for thread_id, user_id in (("ann's", "bob"), ("nobody's", "bob"), ("none", "bob")):
        assert await persistence.purge_thread(thread_id, user_id=user_id) == NOTHING
    assert await persistence.purge_thread("ann's", user_id="ann") == {**FULL, "store_items": 0}


async def test_a_thread_without_metadata_belongs_to_the_owner_of_its_runs(
    persistence: AppPersistence,
):
    await fill(persistence, "t", "ann")
    async with persistence.transaction() as session:
        await build_thread_meta_repository(session).delete_thread("t")
    assert await persistence.purge_thread("t", user_id="bob") == NOTHING
    removed = await persistence.purge_thread("t", user_id="ann")
    assert removed == {**FULL, "store_items": 0, "threads_meta": 0}


async def test_a_purge_that_crashed_is_finished_by_the_next_one(
    persistence: AppPersistence, monkeypatch: pytest.MonkeyPatch
):
    from deerstore.persistence import purge

    class CrashedError(Exception):
        pass

    await fill(persistence, "t", "ann")
    queries = purge.deerstore_queries()
    broken = {"checkpoints.delete_writes", "store.delete_namespace", "purge.delete_thread_meta"}
    removed: dict[str, int] = dict.fromkeys(FULL, 0)
    for name in sorted(broken):

        class Crashing:
            def __init__(self, name: str) -> None:
                self.name = name

            def __getitem__(self, asked: str) -> Any:
                if asked == self.name:
                    raise CrashedError
                return queries[asked]

        monkeypatch.setattr(purge, "deerstore_queries", lambda name=name: Crashing(name))
        with pytest.raises(CrashedError):
            await persistence.purge_thread("t", user_id="ann", include_store=True)
    monkeypatch.undo()
    removed = await persistence.purge_thread("t", user_id="ann", include_store=True)
    assert removed["threads_meta"] == 1
    report = await persistence.recovery_report()
    left = {surface.name: surface.rows for surface in report.surfaces}
    assert left.pop("store") == 1
    assert set(left.values()) == {0}


async def test_a_uuid_is_a_thread_id(persistence: AppPersistence):
    thread_id = uuid.uuid4()
    await fill(persistence, str(thread_id))
    assert await persistence.purge_thread(thread_id, include_store=True) == FULL


async def test_a_thread_id_with_a_dot_owns_no_namespace(persistence: AppPersistence):
    await persistence.store.aput(("a", "b"), "k", {})
    await persistence.purge_thread("a.b", include_store=True)
    assert await persistence.store.aget(("a", "b"), "k") is not None


async def test_event_numbers_go_on_after_a_purge(persistence: AppPersistence):
    await fill(persistence, "t")
    await persistence.purge_thread("t")
    event = await build_run_event_repository(persistence.database).append(
        RunEventCreate(thread_id="t", run_id="r", event_type="x", category="message")
    )
    assert event.seq == 4


async def test_the_report_says_where_everything_is(persistence: AppPersistence, engine: str):
    report = await persistence.recovery_report()
    assert (report.driver, report.durable) == (engine, True)
    assert report.schema_version is not None
    assert len(report.surfaces) == 7
    for surface in report.surfaces:
        assert surface.durable
        assert surface.where.startswith(report.where)
        assert surface.rows == 0
        assert surface.brings_back
        assert surface.cannot_bring_back
    assert report.surface("runs").table == "runs"
    json.dumps(report.as_dict())


async def test_the_report_of_an_empty_database_says_that_nothing_is_there(config):
    if config.driver != "sqlite":
        from deerstore.schema import ensure_database

        await ensure_database(config)
    async with await create_persistence_from_storage_config(config) as persistence:
        report = await persistence.recovery_report()
    assert report.schema_version is None
    assert {surface.rows for surface in report.surfaces} == {None}
