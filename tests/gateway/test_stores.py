"""The stores speak a gateway's names, on every engine alike."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from types import SimpleNamespace
from typing import Any

import pytest

from deerstore.errors import (
    ActiveRunConflictError,
    AlreadyExistsError,
    DuplicateIdError,
    EmailAlreadyRegisteredError,
    IdempotencyConflictError,
    InvalidMetadataFilterError,
    InvalidValueError,
    UserNotFoundError,
)
from deerstore.gateway import (
    RunJournal,
    StorageFeedbackRepository,
    StorageFeedbackStore,
    StorageRunEventRepository,
    StorageRunEventStore,
    StorageRunRepository,
    StorageRunStore,
    StorageThreadMetaRepository,
    StorageThreadMetaStore,
    StorageUserDataRepository,
    StorageUserStore,
    current_user,
)
from deerstore.repositories import (
    FeedbackRepository,
    RunCreate,
    RunEventRepository,
    RunRepository,
    ThreadMetaRepository,
    UserRepository,
)


class Status(StrEnum):
    RUNNING = "running"


class Role(Enum):
    ADMIN = "admin"


@pytest.fixture
def runs(persistence) -> StorageRunStore:
    return StorageRunStore(persistence.session_factory)


@pytest.fixture
def events(persistence) -> StorageRunEventStore:
    return StorageRunEventStore(persistence.session_factory)


@pytest.fixture
def threads(persistence) -> StorageThreadMetaStore:
    return StorageThreadMetaStore(persistence.session_factory)


@pytest.fixture
def feedback(persistence) -> StorageFeedbackStore:
    return StorageFeedbackStore(persistence.session_factory)


@pytest.fixture
def users(persistence) -> StorageUserStore:
    return StorageUserStore(persistence.session_factory)


# -- what they are built from --------------------------------------------------------------------


async def test_any_callable_that_gives_sessions_will_do(persistence):
    for factory in (persistence.session_factory, lambda: persistence.session_factory()):
        store = StorageRunStore(factory)
        await store.put(f"r{id(factory)}", thread_id=f"t{id(factory)}", user_id=None)
    assert persistence.database.pool.in_use == 0
    with pytest.raises(TypeError, match="session_factory must be"):
        StorageRunStore(lambda: None)
    with pytest.raises(TypeError, match="session_factory must be"):
        StorageRunStore("sqlite:///x")


def test_the_adapters_are_repositories(persistence):
    factory = persistence.session_factory
    assert isinstance(StorageRunRepository(factory), RunRepository)
    assert isinstance(StorageUserDataRepository(factory), UserRepository)
    assert isinstance(StorageThreadMetaRepository(factory), ThreadMetaRepository)
    assert isinstance(StorageFeedbackRepository(factory), FeedbackRepository)
    assert isinstance(StorageRunEventRepository(factory), RunEventRepository)


async def test_calls_together_are_one_transaction(persistence):
    repository = StorageRunRepository(persistence.session_factory)

    async def both(inside: RunRepository) -> None:
        await inside.create_run(RunCreate(run_id="r1", thread_id="t1"))
        await inside.create_run(RunCreate(run_id="r2", thread_id="t1"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await repository.together(both)
    assert await repository.count_runs() == 0
    await repository.create_run(RunCreate(run_id="r1", thread_id="t1"))
    assert (await repository.get_run("r1")).status == "pending"


async def test_another_event_loop_is_told_that_it_may_not(runs):
    await runs.put("r1", thread_id="t1", user_id=None)

    def elsewhere() -> str:
        async def get() -> str:
            try:
                await runs.get("r1", user_id=None)
            except RuntimeError as error:
                return str(error)
            return "served"

        return asyncio.run(asyncio.wait_for(get(), 10))

    assert "event loop" in await asyncio.to_thread(elsewhere)
    assert (await runs.get("r1", user_id=None))["run_id"] == "r1"


# -- runs ----------------------------------------------------------------------------------------


async def test_a_run_as_a_row(runs):
    created = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    with current_user("ada"):
        await runs.put(
            uuid.UUID(int=1),
            thread_id="t1",
            assistant_id="a1",
            model_name=SimpleNamespace(),
            status=Status.RUNNING,
            kwargs={"n": [1.5, None]},
            created_at="2026-01-02T05:04:05.000006+02:00",
            lease_expires_at=created,
            owner_worker_id="w1",
        )
        row = await runs.get(uuid.UUID(int=1))
    assert set(row) == {
        "run_id", "thread_id", "assistant_id", "user_id", "status", "operation_kind",
        "idempotency_key", "model_name", "multitask_strategy", "metadata", "kwargs", "error",
        "stop_reason", "message_count", "first_human_message", "last_ai_message",
        "total_input_tokens", "total_output_tokens", "total_tokens", "llm_call_count",
        "lead_agent_tokens", "subagent_tokens", "middleware_tokens", "token_usage_by_model",
        "follow_up_to_run_id", "owner_worker_id", "lease_expires_at", "cancel_action",
        "cancel_requested_at", "created_at", "updated_at",
    }  # fmt: skip
    assert type(row) is dict
    assert row["created_at"] == row["lease_expires_at"] == "2026-01-02T03:04:05.000006+00:00"
    assert row["updated_at"].endswith("+00:00")
    assert row["user_id"] == "ada"
    assert row["metadata"] == {}
    assert row["kwargs"] == {"n": [1.5, None]}
    assert row["model_name"].startswith("namespace")
    assert row["status"] == "running"
    json.dumps(row, allow_nan=False)


async def test_the_user_is_taken_three_ways(runs, threads, feedback, events):
    with pytest.raises(RuntimeError, match="no user context is set"):
        await runs.put("r0", thread_id="t0")
    with pytest.raises(RuntimeError, match="no user context is set"):
        await runs.get("r0")
    with current_user("ada"):
        await runs.put("r1", thread_id="t1")
        await threads.create("t1")
        await feedback.create(run_id="r1", thread_id="t1", rating=1)
    await runs.put("r2", thread_id="t2", user_id="bob")
    await runs.put("r3", thread_id="t3", user_id=None)
    with current_user(SimpleNamespace(id="bob")):
        assert await runs.get("r1") is None
        assert (await runs.get("r2"))["user_id"] == "bob"
        assert await runs.get("r3") is None, "a filter never matches a row without an owner"
        assert await runs.get("r1", user_id="ada") is not None
        assert (await runs.get("r3", user_id=None))["user_id"] is None
        assert await threads.get("t1") is None
        assert await feedback.list_by_run("t1", "r1") == []
        assert await runs.delete("r1") is False
        with pytest.raises(RuntimeError, match="no user context"), current_user(None):
            await events.list_messages("t1")


async def test_put_repeats_and_never_opens_a_final_run_again(runs):
    await runs.put("r1", thread_id="t1", user_id=None, metadata={"a": 1})
    await runs.put("r1", thread_id="t1", user_id=None, status="running", metadata={"a": 2})
    await runs.update_run_completion("r1", status="success", total_tokens=7)
    await runs.put("r1", thread_id="t1", user_id=None, status="running")
    row = await runs.get("r1", user_id=None)
    assert (row["status"], row["metadata"], row["total_tokens"]) == ("success", {"a": 2}, 7)


async def test_put_takes_the_threads_slot(runs):
    await runs.put("r1", thread_id="t1", user_id=None)
    with pytest.raises(ActiveRunConflictError) as conflict:
        await runs.put("r2", thread_id="t1", user_id=None)
    assert conflict.value.sqlstate == "23505"
    await runs.put("r3", thread_id="t1", user_id=None, status="error")
    await runs.update_status("r1", "success")
    await runs.put("r2", thread_id="t1", user_id=None)


async def test_lists_of_runs(runs):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        await runs.put(
            f"r{number}",
            thread_id="t1",
            user_id="ada",
            status="success" if number < 4 else "pending",
            created_at=start + timedelta(minutes=number),
            metadata={
                0: {"regenerate_from_run_id": "r9"},
                1: {"regenerate_from_run_id": "r8", "replay_kind": "edit"},
                2: {"replay_kind": "edit"},
            }.get(number),
        )
    await runs.put("other", thread_id="t2", user_id="ada", operation_kind="edit")
    with current_user("ada"):
        assert [r["run_id"] for r in await runs.list_by_thread("t1", limit=2)] == ["r4", "r3"]
        assert await runs.list_by_thread("t2") == [], "a reservation is not a run"
        assert set(await runs.get_many_by_thread("t1", {"r1", "r2", "other"})) == {"r1", "r2"}
        assert await runs.get_many_by_thread("t1", []) == {}
        assert await runs.list_successful_regenerate_sources("t1") == {"r9", "r8"}
        assert [r["run_id"] for r in await runs.list_edit_regenerate_runs("t1")] == ["r1"]
    assert [r["run_id"] for r in await runs.list_pending()] == ["r4"]
    assert {r["run_id"] for r in await runs.list_inflight()} == {"r4", "other"}
    assert await runs.list_pending(before=start.isoformat()) == []
    assert await runs.delete_thread_operation("other", user_id="bob") is False
    assert await runs.delete_thread_operation("other", user_id="ada") is True
    assert await runs.delete("r0", user_id=None) is True


async def test_a_journals_completion_fits(runs, events):
    await runs.put("r1", thread_id="t1", user_id=None)
    assert await runs.start_run("r1") is True
    assert await runs.start_run("r1") is False
    assert await runs.update_model_name("r1", 5) is True
    journal = RunJournal("r1", "t1", events)
    journal.record_external_llm_usage_records(
        [{"source_run_id": "s", "caller": "subagent:x", "model_name": "m", "input_tokens": 3}]
    )
    journal.record_middleware("guard", name="G", hook="h", action="a", changes={"x": float("nan")})
    await journal.flush()
    assert await runs.update_run_progress("r1", **journal.completion()) is True
    assert await runs.update_run_completion("r1", status="success", **journal.completion()) is True
    row = await runs.get("r1", user_id=None)
    assert row["model_name"] == "5"
    assert (row["total_tokens"], row["subagent_tokens"]) == (3, 3)
    total = await runs.aggregate_tokens_by_thread("t1")
    assert total["by_model"] == {"m": {"tokens": 3, "runs": 1}}
    (event,) = await events.list_events("t1", "r1", user_id=None)
    assert (event["event_type"], event["category"], event["seq"]) == (
        "middleware:guard",
        "middleware",
        1,
    )


async def test_a_journal_over_the_store_loses_nothing_and_rejects_poison(events):
    journal = RunJournal("r1", "t1", events, flush_threshold=7)
    for number in range(50):
        journal.record_middleware("m", name="n", hook="h", action="a", changes=number)
        if number == 30:
            journal._put("bad", "far too long a category", "")
        if number % 10 == 0:
            await asyncio.sleep(0.001)
    await journal.flush()
    rows = await events.list_events("t1", "r1", after_seq=0, user_id=None)
    assert [row["content"]["changes"] for row in rows] == list(range(50))
    assert [row["seq"] for row in rows] == list(range(1, 51))
    assert [kind for kind, _ in journal.rejected_events] == ["bad"]


async def test_ownership(runs):
    with pytest.raises(RuntimeError, match="no user context"):
        await runs.create_thread_operation_atomic(
            "r1", thread_id="t1", owner_worker_id="w1", lease_expires_at=None
        )
    soon = datetime.now(UTC) + timedelta(minutes=1)
    with current_user("ada"):
        row, interrupted = await runs.create_thread_operation_atomic(
            "r1",
            thread_id="t1",
            owner_worker_id="w1",
            lease_expires_at=soon.isoformat(),
            idempotency_key="k1",
        )
    assert (row["user_id"], row["status"], interrupted) == ("ada", "pending", [])
    with pytest.raises(ActiveRunConflictError) as conflict:
        await runs.create_thread_operation_atomic(
            "r2",
            thread_id="t1",
            owner_worker_id="w2",
            lease_expires_at=None,
            user_id="bob",
            multitask_strategy="interrupt",
        )
    assert conflict.value.reason == "other_worker"
    assert not hasattr(conflict.value, "sqlstate")
    with pytest.raises(IdempotencyConflictError) as reused:
        await runs.create_thread_operation_atomic(
            "r3",
            thread_id="t9",
            owner_worker_id="w1",
            lease_expires_at=None,
            user_id="ada",
            idempotency_key="k1",
        )
    assert reused.value.existing["run_id"] == "r1"
    assert await runs.update_lease("r1", owner_worker_id="w2", lease_expires_at=soon) is False
    past = datetime.now(UTC) - timedelta(minutes=5)
    assert await runs.update_lease("r1", owner_worker_id="w1", lease_expires_at=past) is True
    assert [r["run_id"] for r in await runs.list_inflight_with_expired_lease()] == ["r1"]
    assert await runs.request_cancel("r1", action="rollback") == "rollback"
    assert await runs.request_cancel("r1", action="interrupt") == "rollback"
    renewal = await runs.renew_lease("r1", owner_worker_id="w1", lease_expires_at=past)
    assert (renewal.renewed, renewal.cancel_action) == (True, "rollback")
    outcome = await runs.finalize_if_not_cancelled("r1", status="success")
    assert (outcome.finalized, outcome.cancel_action) == (False, "rollback")
    row, interrupted = await runs.create_thread_operation_atomic(
        "r2",
        thread_id="t1",
        owner_worker_id="w2",
        lease_expires_at=None,
        user_id="bob",
        multitask_strategy="interrupt",
    )
    assert [r["run_id"] for r in interrupted] == ["r1"]
    assert interrupted[0]["status"] == "interrupted"
    assert await runs.claim_for_takeover("r2", grace_seconds=10, error="gone") is True
    assert (await runs.get("r2", user_id=None))["status"] == "error"


# -- events --------------------------------------------------------------------------------------


async def test_an_event_as_a_row(events):
    row = await events.put(
        thread_id="t1",
        run_id="r1",
        event_type="llm.ai.response",
        category="message",
        content={"text": "hi", "n": float("inf")},
        metadata={"caller": "lead_agent"},
        created_at="2026-01-01T00:00:00Z",
    )
    assert row == {
        "thread_id": "t1",
        "run_id": "r1",
        "user_id": None,
        "event_type": "llm.ai.response",
        "category": "message",
        "content": {"text": "hi", "n": float("inf")},
        "metadata": {"caller": "lead_agent"},
        "seq": 1,
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    assert await events.list_messages("t1", user_id=None) == [row]
    with current_user("ada"):
        assert (await events.put(thread_id="t1", run_id="r1", event_type="x", category="trace"))[
            "user_id"
        ] == "ada"
        assert await events.count_messages("t1") == 0
    assert await events.count_messages("t1", user_id=None) == 1


async def test_a_batch_is_of_one_thread_and_says_which_event_is_wrong(events):
    place = {"thread_id": "t1", "run_id": "r1", "event_type": "x"}
    with current_user("ada"):
        rows = await events.put_batch(
            [place, {**place, "user_id": "bob"}, {**place, "user_id": None, "category": "message"}]
        )
    assert [row["user_id"] for row in rows] == ["ada", "bob", None]
    assert [row["category"] for row in rows] == ["trace", "trace", "message"]
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert await events.put_batch([]) == []
    with pytest.raises(ValueError, match="one thread"):
        await events.put_batch([place, {**place, "thread_id": "t2"}])
    for bad in (
        {**place, "event_type": None},
        {**place, "category": "x" * 17},
        {**place, "metadata": {"a": float("nan")}},
        {"thread_id": "t1"},
        "text",
    ):
        with pytest.raises(InvalidValueError) as refused:
            await events.put_batch([place, bad])
        assert refused.value.index == 1
    assert len(await events.list_events("t1", "r1", user_id=None)) == 3


async def test_traces_are_bounded(persistence):
    events = StorageRunEventStore(persistence.session_factory, max_trace_content=100)
    place = {"thread_id": "t1", "run_id": "r1", "event_type": "x", "category": "trace"}
    text = await events.put(**place, content="é" * 80)
    assert text["content"] == "é" * 50
    assert text["metadata"] == {"content_truncated": True, "original_byte_length": 160}
    (data,) = await events.put_batch([{**place, "content": {"a": "x" * 200}, "metadata": {"b": 1}}])
    assert data["content"].startswith('{"a": "xxx')
    assert len(data["content"]) == 100
    assert data["metadata"] == {"b": 1, "content_truncated": True, "original_byte_length": 209}
    kept, _ = await events.put_if_absent(
        **{**place, "event_type": "y", "category": "message"}, content="z" * 500
    )
    assert len(kept["content"]) == 500
    assert (await events.put(**place, content="x" * 100))["metadata"] == {}


async def test_put_if_absent(events):
    place = {"thread_id": "t1", "run_id": "r1", "event_type": "run.start", "category": "trace"}
    first, created = await events.put_if_absent(**place, content="a")
    again, created_again = await events.put_if_absent(**place, content="b")
    assert (created, created_again) == (True, False)
    assert again == first


async def test_pages_of_events(events):
    with current_user("ada"):
        for run in ("r1", "r2"):
            await events.put_batch(
                [
                    {
                        "thread_id": "t1",
                        "run_id": run,
                        "event_type": kind,
                        "category": "message",
                        "content": {"additional_kwargs": hidden},
                        "metadata": {"caller": caller},
                    }
                    for kind, caller, hidden in (
                        ("llm.human.input", "lead_agent", {}),
                        ("llm.ai.response", "lead_agent", {}),
                        ("llm.ai.response", "middleware:title", {}),
                        ("llm.ai.response", "lead_agent", {"hide_from_ui": True}),
                    )
                ]
            )
        assert [e["seq"] for e in await events.list_messages("t1", limit=3)] == [6, 7, 8]
        assert [e["seq"] for e in await events.list_messages("t1", before_seq=3)] == [1, 2]
        by_run = await events.list_messages_by_run("t1", "r2", after_seq=5, limit=2)
        assert [e["seq"] for e in by_run] == [6, 7]
        assert len(await events.list_events("t1", "r1", event_types=[])) == 4, "no filter"
        assert len(await events.list_events("t1", "r1", event_types={"llm.human.input"})) == 1
        last = await events.get_last_visible_ai_seq_by_run("t1", {"r1", "r2", "r3"})
        assert last == {"r1": 2, "r2": 6}
        assert await events.delete_by_run("t1", "r1") == 4
        assert await events.delete_by_thread("t1", user_id="bob") == 0
        assert await events.delete_by_thread("t1") == 4


# -- threads -------------------------------------------------------------------------------------


async def test_threads(threads, caplog):
    with current_user("ada"):
        row = await threads.create("t1", assistant_id="a", display_name="One", metadata={"k": 1})
        assert set(row) == {
            "thread_id", "assistant_id", "user_id", "display_name", "status", "metadata",
            "created_at", "updated_at",
        }  # fmt: skip
        assert await threads.get("t1") == row
        with pytest.raises(DuplicateIdError) as taken:
            await threads.create("t1")
        assert taken.value.sqlstate == "23505"
        await threads.create("t2", metadata={"k": 2})
        await threads.create("t3", metadata={"deerflow_pinned": True})
        assert await threads.update_metadata("t1", {"n": None}) is True
        assert (await threads.get("t1"))["metadata"] == {"k": 1, "n": None}
        assert [t["thread_id"] for t in await threads.search()] == ["t3", "t1", "t2"]
        assert [t["thread_id"] for t in await threads.search(metadata={"k": 2})] == ["t2"]
        assert await threads.update_metadata("t2", {"x": 1}, touch=False) is True
        assert [t["thread_id"] for t in await threads.search(limit=2)] == ["t3", "t1"]
        assert await threads.update_status("t1", Status.RUNNING) is True
        assert [t["thread_id"] for t in await threads.search(status="running")] == ["t1"]
        assert await threads.update_display_name("t1", None) is True
        assert (await threads.get("t1"))["display_name"] is None
        with caplog.at_level(logging.WARNING):
            found = await threads.search(metadata={"k": 1, "bad key!": 1})
        assert [t["thread_id"] for t in found] == ["t1"]
        assert "bad key!" in caplog.text
        with pytest.raises(InvalidMetadataFilterError):
            await threads.search(metadata={"bad key!": 1})
        assert await threads.update_owner("t1", "bob") is True
        assert await threads.get("t1") is None
    assert await threads.check_access("t1", "bob") is True
    assert await threads.check_access("t1", "ada") is False
    assert await threads.check_access("t9", "ada") is True
    assert await threads.check_access("t9", "ada", require_existing=True) is False
    assert await threads.delete("t1", user_id="ada") is False
    assert await threads.delete("t1", user_id=None) is True
    await threads.create("shared", user_id=None)
    assert await threads.check_access("shared", uuid.uuid4()) is True


# -- feedback ------------------------------------------------------------------------------------


async def test_feedback(feedback):
    with current_user("ada"):
        first = await feedback.create(
            run_id="r1", thread_id="t1", rating=1, message_id="m1", comment="good"
        )
        assert set(first) == {
            "feedback_id", "run_id", "thread_id", "user_id", "message_id", "rating", "comment",
            "created_at",
        }  # fmt: skip
        with pytest.raises(AlreadyExistsError):
            await feedback.create(run_id="r1", thread_id="t1", rating=-1)
        changed = await feedback.upsert(
            run_id="r1", thread_id="t1", rating=-1, message_id="m2", comment=None
        )
        assert changed["feedback_id"] == first["feedback_id"]
        assert (changed["rating"], changed["comment"], changed["message_id"]) == (-1, None, "m1")
        assert await feedback.get(first["feedback_id"]) == changed
        with pytest.raises(ValueError, match="rating must be"):
            await feedback.create(run_id="r2", thread_id="t1", rating=0)
    nobody = await feedback.upsert(run_id="r1", thread_id="t1", rating=1, user_id=None)
    assert (await feedback.upsert(run_id="r1", thread_id="t1", rating=1, user_id=None))[
        "feedback_id"
    ] == nobody["feedback_id"]
    await feedback.create(run_id="r2", thread_id="t1", rating=1, user_id="bob")
    rows = await feedback.list_by_thread("t1", user_id=None)
    assert [r["created_at"] for r in rows] == sorted(r["created_at"] for r in rows)
    assert len(rows) == 3
    assert len(await feedback.list_by_thread("t1", limit=1, user_id=None)) == 1
    assert len(await feedback.list_by_run("t1", "r1", user_id=None)) == 2
    grouped = await feedback.list_by_thread_grouped("t1", user_id=None)
    assert grouped["r1"]["feedback_id"] == nobody["feedback_id"]
    assert set(await feedback.list_by_run_ids("t1", {"r2", "r9"}, user_id=None)) == {"r2"}
    assert await feedback.aggregate_by_run("t1", "r1") == {
        "run_id": "r1", "total": 2, "positive": 1, "negative": 1,
    }  # fmt: skip
    assert await feedback.delete_by_run(thread_id="t1", run_id="r2", user_id=None) is False
    assert await feedback.delete_by_run(thread_id="t1", run_id="r1", user_id=None) is True
    assert [r["user_id"] for r in await feedback.list_by_run("t1", "r1", user_id=None)] == ["ada"]
    assert await feedback.delete(first["feedback_id"], user_id="bob") is False
    assert await feedback.delete(first["feedback_id"], user_id="ada") is True


# -- users ---------------------------------------------------------------------------------------


async def test_users(users):
    ada = SimpleNamespace(
        id=uuid.UUID(int=1),
        email="Ada@Example.ORG",
        password_hash="x",
        system_role=Role.ADMIN,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        other="ignored",
    )
    row = await users.create_user(ada)
    assert row == {
        "id": str(uuid.UUID(int=1)),
        "email": "ada@example.org",
        "password_hash": "x",
        "system_role": "admin",
        "created_at": "2026-01-01T00:00:00+00:00",
        "oauth_provider": None,
        "oauth_id": None,
        "needs_setup": False,
        "token_version": 0,
    }
    assert await users.get_user_by_id(ada.id) == row
    assert await users.get_user_by_email("ADA@example.org") == row
    assert await users.get_first_admin() == row
    with pytest.raises(EmailAlreadyRegisteredError, match="Email already registered"):
        await users.create_user({"id": "u2", "email": "ada@EXAMPLE.org"})
    with pytest.raises(AlreadyExistsError):
        await users.create_first_admin({"id": "u2", "email": "x@example.org"})
    await users.create_user(
        {"id": "u2", "email": "B@x.org", "oauth_provider": "github", "oauth_id": "7"}
    )
    assert (await users.get_user_by_oauth("github", "7"))["id"] == "u2"
    changed = await users.update_user({**row, "email": "NEW@example.org", "token_version": 3})
    assert (changed["email"], changed["token_version"]) == ("new@example.org", 3)
    assert changed["created_at"] == row["created_at"]
    with pytest.raises(UserNotFoundError):
        await users.update_user({"id": "u9", "email": "n@x.org"})
    assert await users.get_user_by_id("u9") is None
    assert (await users.count_users(), await users.count_admin_users()) == (2, 1)
    with pytest.raises(InvalidValueError, match="email"):
        await users.create_user({"id": "u3"})


async def test_ids_that_are_not_given_are_named(runs: Any):
    with pytest.raises(InvalidValueError, match="thread_id"):
        await runs.put("r1", thread_id=None, user_id=None)
    with pytest.raises(InvalidValueError, match="run_id"):
        await runs.put("r" * 65, thread_id="t", user_id=None)
