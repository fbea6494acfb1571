"""Rows that DeerFlow wrote, read through the repositories beside rows that deerstore writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import deerstore
from deerstore.errors import ActiveRunConflictError, EmailAlreadyRegisteredError
from deerstore.repositories import (
    FeedbackCreate,
    RunCreate,
    RunEventCreate,
    ThreadMetaCreate,
    UserCreate,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from tests.schema.deerflow import BIG, SHAPES, Client, build

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from deerstore.persistence import AppPersistence

pytestmark = pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-05-01T{text}+00:00")


@pytest.fixture(params=[*SHAPES, "A without zones", "E without zones"])
def released(request: pytest.FixtureRequest, engine: str) -> str:
    if engine == "sqlite" and " " in request.param:
        pytest.skip("SQLite's times have no zone")
    return request.param


@pytest.fixture
def shape(released: str) -> str:
    return released[0]


@pytest.fixture
async def persistence(engine, released, shape, storage_url) -> AsyncIterator[AppPersistence]:
    with Client(engine, storage_url) as client:
        build(client, shape, zoned=released == shape)
    async with deerstore.open(storage_url) as opened:
        yield opened


async def test_old_and_new_runs_come_in_one_order(shape, persistence):
    runs = build_run_repository(persistence.database)
    between = at("10:02:30.000000")
    await runs.create_run(
        RunCreate(run_id="n1", thread_id="t1", status="success", created_time=between)
    )
    await runs.create_run(RunCreate(run_id="n2", thread_id="t1", status="success"))
    old = ["r4", "r1"] if shape == "E" else ["r4", "n1", "r3", "r2", "r1"]
    if shape == "E":
        old.insert(1, "n1")

    listed = await runs.list_runs_by_thread("t1")

    assert [run.run_id for run in listed] == ["n2", *old]
    assert [r.run_id for r in await runs.list_runs_before("t1", before_run_id="n1")] == old[
        old.index("n1") + 1 :
    ]
    first = listed[-1]
    assert first.created_time == at("10:00:00.123456")
    assert first.metadata == {"big": BIG}
    assert first.kwargs in (None, {})
    assert (first.total_tokens, first.user_id) == (12, "u1")
    waiting = next(run for run in listed if run.run_id == "r4")
    assert waiting.token_usage_by_model == {}
    error = await runs.get_run("r6")
    assert error is not None
    assert error.error == "boom" * 20_000


async def test_cut_offs_see_old_and_new_runs_alike(persistence):
    runs = build_run_repository(persistence.database)
    await runs.create_run(
        RunCreate(run_id="n1", thread_id="t7", created_time=at("10:02:59.999999"))
    )

    pending = await runs.list_pending(before=at("10:03:00.123457"))
    assert [run.run_id for run in pending] == ["n1", "r4", "r5"]
    assert [run.run_id for run in await runs.list_pending(before=at("10:03:00.123455"))] == ["n1"]
    assert [run.run_id for run in await runs.list_inflight()][:1] == ["n1"]


async def test_tokens_of_old_runs_count(shape, persistence):
    runs = build_run_repository(persistence.database)

    total = await runs.aggregate_tokens_by_thread("t1")

    assert total["total_tokens"] == 12
    # The superseded runs have ended with an error, and count as such.
    superseded = {} if shape == "E" else {"unknown": {"tokens": 0, "runs": 2}}
    assert total["by_model"] == {"m": {"tokens": 12, "runs": 1}, **superseded}


async def test_old_flagged_content_reads_as_it_was_written(persistence):
    events = build_run_event_repository(persistence.database)
    new = await events.append(
        RunEventCreate(
            thread_id="t1",
            run_id="r1",
            event_type="llm.ai.response",
            category="message",
            content={"new": True},
        )
    )

    listed = await events.list_events("t1", "r1")

    assert new.seq == 7
    assert [event.seq for event in listed] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.content for event in listed] == [
        "plain words",
        {"type": "ai", "content": "hi"},
        [1, 2],
        '{"looks": "like json"}',
        "trace",
        "no metadata",
        {"new": True},
    ]
    assert listed[1].metadata == {}
    assert listed[3].metadata == {"n": BIG}
    assert listed[0].created_at == at("10:00:01.123456")
    messages = await events.list_messages("t1", before_seq=7, limit=2)
    assert [event.seq for event in messages] == [4, 6]
    assert await events.last_ai_seq_by_run("t1", ["r1"]) == {"r1": 7}


async def test_seq_goes_on_from_what_deerflow_writes_meanwhile(engine, storage_url, persistence):
    events = build_run_event_repository(persistence.database)

    def event() -> RunEventCreate:
        return RunEventCreate(thread_id="t1", run_id="r1", event_type="x", category="trace")

    assert (await events.append(event())).seq == 7
    time = "2026-05-02 10:00:00.000000" + ("" if engine == "sqlite" else "+00")
    with Client(engine, storage_url) as client:
        client.run(
            "INSERT INTO run_events (thread_id, run_id, event_type, category, content, "
            "event_metadata, seq, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ("t1", "r1", "x", "trace", "", "{}", 20, time),
        )

    assert (await events.append(event())).seq == 21


async def test_searches_do_not_fail_on_old_metadata(engine, persistence):
    threads = build_thread_meta_repository(persistence.database)
    await threads.create_thread_meta(
        ThreadMetaCreate(thread_id="n", metadata={"colour": "blue", "deerflow_pinned": True})
    )

    async def found(**kwargs) -> list[str]:
        return [thread.thread_id for thread in await threads.search_threads(**kwargs)]

    assert await found() == ["n", "t4", "t3", "t2", "t1"]
    assert await found(order="recent") == ["n", "t1", "t4", "t3", "t2"]
    assert await found(metadata={"colour": "blue"}) == ["n", "t2", "t1"]
    assert await found(metadata={"deerflow_pinned": True}) == ["n", "t1"]
    assert await found(metadata={"colour": None}) == []
    assert await found(metadata={"big": 2**62}) == []
    assert await found(status="interrupted") == ["t4"]
    old = {thread.thread_id: thread for thread in await threads.search_threads()}
    assert old["t3"].metadata == {}
    assert old["t4"].metadata == {}
    assert old["t1"].metadata["big"] == BIG
    assert len(old["t3"].display_name or "") >= 256


async def test_old_threads_can_be_merged_into(persistence):
    threads = build_thread_meta_repository(persistence.database)

    for thread in ("t1", "t2", "t3", "t4"):
        assert await threads.merge_thread_metadata(thread, {"k": 1})

    merged = await threads.search_threads(metadata={"k": 1})
    assert [thread.thread_id for thread in merged] == ["t4", "t3", "t2", "t1"]
    assert merged[3].metadata["big"] == BIG
    assert merged[0].metadata == {"k": 1}


async def test_old_and_new_feedback_come_in_one_order(persistence):
    feedback = build_feedback_repository(persistence.database)
    await feedback.create_feedback(
        FeedbackCreate(feedback_id="n", run_id="r1", thread_id="t1", rating=1, user_id="u2")
    )

    listed = await feedback.list_feedback_by_thread("t1")

    assert [item.feedback_id for item in listed] == ["n", "f4", "f2"]
    again = await feedback.upsert_feedback(
        FeedbackCreate(feedback_id="x", run_id="r1", thread_id="t1", rating=1)
    )
    assert again.feedback_id == "f2"


async def test_old_accounts_are_found_whatever_their_case(persistence):
    users = build_user_repository(persistence.database)

    async def found(email: str) -> str | None:
        user = await users.get_user_by_email(email)
        return user and user.id

    assert await found("mixed.case@example.org") == "u-mixed"
    assert await found("TWIN@example.org") == "u-twin-old"
    assert await found("twin@EXAMPLE.org") == "u-twin-new"
    assert (await users.get_first_admin()).id == "u-mixed"
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.create_user(UserCreate(id="n", email="MIXED.case@example.org"))
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.create_user(UserCreate(id="n", email="tWIn@example.org"))


async def test_the_newest_active_run_of_a_thread_keeps_its_slot(persistence):
    runs = build_run_repository(persistence.database)

    with pytest.raises(ActiveRunConflictError):
        await runs.admit_run(RunCreate(run_id="n", thread_id="t1"))
    assert await runs.update_run_status("r4", "success")
    admission = await runs.admit_run(RunCreate(run_id="n", thread_id="t1"), lease_seconds=30)
    assert admission.run.run_id == "n"


async def test_plain_creation_obeys_deerflows_own_index_where_there_is_one(shape, persistence):
    runs = build_run_repository(persistence.database)
    second = RunCreate(run_id="n", thread_id="t1", created_time=datetime.now(UTC) - timedelta(1))

    if shape == "E":
        with pytest.raises(ActiveRunConflictError):
            await runs.create_run(second)
    else:
        assert (await runs.create_run(second)).run_id == "n"
