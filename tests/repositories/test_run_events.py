"""Run events: the numbers of a thread, its pages, and what is deleted."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from deerstore.errors import InvalidValueError
from deerstore.repositories import RunEventCreate, build_run_event_repository
from tests.repositories.conftest import HOSTILE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import RunEvent, RunEventRepository

#: An event as another writer stores it: the columns that every release of DeerFlow has.
INSERT = (
    "INSERT INTO run_events (thread_id, run_id, user_id, event_type, category, content,"
    " event_metadata, seq, created_at) VALUES (%s, %s, NULL, %s, %s, %s, %s, %s, %s)"
)


@pytest.fixture
def events(database: Database) -> RunEventRepository:
    return build_run_event_repository(database)


def event(thread_id: str = "t", run_id: str = "r", **fields: Any) -> RunEventCreate:
    given = {"event_type": "note", "category": "message", **fields}
    return RunEventCreate(thread_id=thread_id, run_id=run_id, **given)


def seqs(found: list[RunEvent]) -> list[int]:
    return [each.seq for each in found]


async def fill(events: RunEventRepository, count: int, **fields: Any) -> None:
    await events.append_batch([event(content=str(n), **fields) for n in range(1, count + 1)])


# -- numbers -----------------------------------------------------------------------------------


async def test_a_fresh_thread_counts_from_one(events: RunEventRepository) -> None:
    assert [(await events.append(event())).seq for _ in range(3)] == [1, 2, 3]
    assert (await events.append(event("other"))).seq == 1


async def test_what_append_returns_is_what_a_read_returns(events: RunEventRepository) -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    made = await events.append_batch(
        [
            event(user_id="u", content={"a": [1, 2.5, None]}, metadata={"k": "ü", "n": {"x": []}}),
            event(created_at=datetime(2026, 1, 1, 12, 0, 0, 7, tzinfo=east)),
            event(created_at=datetime(2026, 1, 1, 12)),
            event(created_at="2026-01-01T12:00:00.5Z", content=None),
        ]
    )
    assert made == await events.list_messages("t")
    assert made[1].created_at == datetime(2026, 1, 1, 6, 30, 0, 7, tzinfo=UTC)
    assert made[2].created_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert made[3].created_at == datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert all(each.created_at.tzinfo is UTC for each in made)


async def test_a_batch_keeps_its_order_and_leaves_no_gap(events: RunEventRepository) -> None:
    await events.append(event())
    made = await events.append_batch([event(content=n) for n in range(1_000)])
    assert seqs(made) == list(range(2, 1_002))
    read = await events.list_messages("t", after_seq=1, limit=1_000)
    assert [each.content for each in read] == list(range(1_000))


async def test_an_empty_batch_is_an_empty_list(events: RunEventRepository) -> None:
    assert await events.append_batch([]) == []


async def test_a_batch_over_threads_rises_over_the_whole_batch(events: RunEventRepository) -> None:
    await fill(events, 7, thread_id="b")
    made = await events.append_batch([event("a"), event("b"), event("c"), event("a")])
    assert [(each.thread_id, each.seq) for each in made] == [
        ("a", 8),
        ("b", 9),
        ("c", 10),
        ("a", 11),
    ]
    for thread in ("a", "b", "c"):
        assert (await events.append(event(thread))).seq > made[-1].seq


async def test_a_number_is_never_used_again(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    await fill(events, 3)
    assert await events.delete_by_thread("t") == 3
    assert (await events.append(event())).seq == 4
    raw_sql("DELETE FROM run_events")
    assert (await events.append(event())).seq == 5
    assert await events.delete_by_run("t", "r") == 1
    assert (await events.append_batch([event(), event()]))[1].seq == 7


async def test_other_writers_numbers_are_honoured(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    def foreign(seq: int) -> None:
        raw_sql(INSERT, "t", "r", "x", "message", "c", "{}", seq, "2026-01-01 00:00:00.000000")

    foreign(41)
    assert (await events.append(event())).seq == 42
    foreign(50)
    assert (await events.append_if_absent(event(event_type="new")))[0].seq == 51
    foreign(60)
    assert seqs(await events.append_batch([event(), event("u")])) == [61, 62]
    foreign(70)
    assert await events.delete_by_thread("t") == 7
    assert (await events.append(event())).seq == 71


async def test_numbers_stay_exact_beyond_32_bits(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    high = 2**53 - 10
    raw_sql(INSERT, "t", "r", "x", "message", "c", "{}", high, "2026-01-01 00:00:00.000000")
    assert (await events.append(event())).seq == high + 1


# -- append_if_absent ----------------------------------------------------------------------------


async def test_append_if_absent_stores_one_per_thread_run_and_type(
    events: RunEventRepository,
) -> None:
    first, created = await events.append_if_absent(event(event_type="run.start", content=[1]))
    assert created
    again, created = await events.append_if_absent(event(event_type="run.start", content=[2]))
    assert not created
    assert again == first
    assert first.content == [1]
    for other in (
        event("t2", event_type="run.start"),
        event(run_id="r2", event_type="run.start"),
        event(event_type="run.end"),
    ):
        assert (await events.append_if_absent(other))[1]
    assert seqs(await events.list_messages("t")) == [1, 2, 3]


async def test_append_if_absent_gives_the_oldest_of_several(events: RunEventRepository) -> None:
    await events.append_batch([event(content=1), event(content=2)])
    found, created = await events.append_if_absent(event(content=3))
    assert (found.content, created) == (1, False)


async def test_a_refused_test_takes_no_number(events: RunEventRepository) -> None:
    await events.append_if_absent(event())
    await events.append_if_absent(event())
    assert (await events.append(event())).seq == 2


# -- pages ---------------------------------------------------------------------------------------


async def test_the_four_kinds_of_page(events: RunEventRepository) -> None:
    await fill(events, 10)
    assert seqs(await events.list_messages("t", limit=3)) == [8, 9, 10]
    assert seqs(await events.list_messages("t", limit=3, before_seq=5)) == [2, 3, 4]
    assert seqs(await events.list_messages("t", limit=3, after_seq=5)) == [6, 7, 8]
    assert seqs(await events.list_messages("t", limit=3, after_seq=2, before_seq=9)) == [3, 4, 5]
    assert seqs(await events.list_messages("t", after_seq=2, before_seq=5)) == [3, 4]
    assert seqs(await events.list_messages("t", after_seq=0)) == list(range(1, 11))
    assert await events.list_messages("t", after_seq=10) == []
    assert await events.list_messages("t", before_seq=1) == []
    assert await events.list_messages("t", limit=0) == []
    assert await events.list_messages("nobody") == []


async def test_walking_visits_each_event_once_either_way(events: RunEventRepository) -> None:
    await fill(events, 23)
    forward: list[int] = []
    while page := await events.list_messages("t", limit=5, after_seq=forward[-1] if forward else 0):
        forward += seqs(page)
    assert forward == list(range(1, 24))
    backward: list[int] = []
    page = await events.list_messages("t", limit=5)
    while page:
        backward = seqs(page) + backward
        page = await events.list_messages("t", limit=5, before_seq=backward[0])
    assert backward == forward


async def test_message_lists_hold_messages_only(events: RunEventRepository) -> None:
    await events.append_batch([event(category=name) for name in ("trace", "message", "outputs")])
    assert seqs(await events.list_messages("t")) == [2]
    assert seqs(await events.list_messages_by_run("t", "r")) == [2]
    assert seqs(await events.list_events("t", "r")) == [1, 2, 3]
    assert await events.count_messages("t") == 1
    assert await events.count_events() == 3


async def test_pages_of_a_run(events: RunEventRepository) -> None:
    for n in range(1, 13):
        await events.append(event(run_id="even" if n % 2 == 0 else "odd"))
    assert seqs(await events.list_messages_by_run("t", "even", limit=2)) == [10, 12]
    assert seqs(await events.list_messages_by_run("t", "even", limit=2, before_seq=9)) == [6, 8]
    assert seqs(await events.list_messages_by_run("t", "odd", limit=2, after_seq=3)) == [5, 7]
    ranged = await events.list_messages_by_run("t", "odd", after_seq=3, before_seq=9)
    assert seqs(ranged) == [5, 7]
    assert seqs(await events.list_events("t", "even", limit=2)) == [10, 12]
    assert seqs(await events.list_events("t", "even", limit=2, after_seq=0)) == [2, 4]
    assert await events.list_messages_by_run("t2", "even") == []
    assert await events.list_events("t", "even", limit=0) == []


async def test_list_events_keeps_types_and_tasks(events: RunEventRepository) -> None:
    await events.append_batch(
        [
            event(event_type="a", metadata={"task_id": "1"}),
            event(event_type="b", metadata={"task_id": 1}),
            event(event_type="A", metadata={"task_id": "é\\\"'"}),
            event(event_type="c", metadata={"other": {"task_id": "1"}}),
        ]
    )
    assert seqs(await events.list_events("t", "r", event_types=["a", "c", "none"])) == [1, 4]
    assert seqs(await events.list_events("t", "r", event_types=("A",))) == [3]
    assert await events.list_events("t", "r", event_types=[]) == []
    assert await events.list_events("t", "r", event_types=["x" * 40]) == []
    assert seqs(await events.list_events("t", "r", task_id="1")) == [1]
    assert seqs(await events.list_events("t", "r", task_id="é\\\"'")) == [3]
    assert seqs(await events.list_events("t", "r", task_id="1", event_types=["b"])) == []
    with pytest.raises(InvalidValueError, match="event_types"):
        await events.list_events("t", "r", event_types="abc")


async def test_a_filter_by_owner_never_matches_an_event_without_one(
    events: RunEventRepository,
) -> None:
    await events.append_batch([event(user_id="u"), event(), event(user_id="U")])
    assert seqs(await events.list_messages("t", user_id="u")) == [1]
    assert seqs(await events.list_messages_by_run("t", "r", user_id="U")) == [3]
    assert seqs(await events.list_events("t", "r", user_id="u")) == [1]
    assert await events.count_messages("t", user_id="u") == 1
    assert await events.count_messages("t") == 3
    assert await events.delete_by_run("t", "r", user_id="U") == 1
    assert await events.delete_by_thread("t", user_id="u") == 1
    assert seqs(await events.list_messages("t")) == [2]


# -- the last answer -----------------------------------------------------------------------------


async def test_last_ai_seq_is_that_of_the_last_model_answer(events: RunEventRepository) -> None:
    answer = "llm.ai.response"
    await events.append_batch(
        [
            event(run_id="r1", event_type=answer),
            event(run_id="r1", event_type=answer),
            event(run_id="r1", event_type="llm.tool.result"),
            event(run_id="r2", event_type=answer, category="trace"),
            event(run_id="r3", event_type="llm.human.input"),
            event(run_id="r4", event_type=answer, user_id="u"),
        ]
    )
    found = await events.last_ai_seq_by_run("t", ["r1", "r2", "r3", "r4", "r5", "r1"])
    assert found == {"r1": 2, "r4": 6}
    assert await events.last_ai_seq_by_run("t", ["r1", "r4"], user_id="u") == {"r4": 6}
    assert await events.last_ai_seq_by_run("t", []) == {}
    assert await events.last_ai_seq_by_run("t2", ["r1"]) == {}


async def test_a_visible_answer_is_neither_hidden_nor_middlewares(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    answer = "llm.ai.response"
    words = '"hide_from_ui": true, "caller": "middleware:x"'
    hidden = {"additional_kwargs": {"hide_from_ui": True}}
    await events.append_batch(
        [
            event(event_type=answer, content={"content": words}, metadata={"caller": words}),
            event(event_type=answer, content=hidden),
            event(event_type=answer, metadata={"caller": "middleware:title"}),
        ]
    )
    raw_sql(
        INSERT,
        "t",
        "r",
        answer,
        "message",
        '{"additional_kwargs": {"hide_from_ui": true}}',
        '{"content_is_dict": true}',
        4,
        "2026-01-01 00:00:00.000000",
    )
    assert await events.last_ai_seq_by_run("t", ["r"]) == {"r": 4}
    assert await events.last_ai_seq_by_run("t", ["r"], visible=True) == {"r": 1}
    await events.append(event(event_type=answer, content=words))
    assert await events.last_ai_seq_by_run("t", ["r"], visible=True) == {"r": 5}


# -- values --------------------------------------------------------------------------------------


async def test_ids_are_compared_code_point_by_code_point(events: RunEventRepository) -> None:
    for each in HOSTILE_IDS:
        made = await events.append(event(each, each, user_id=each, event_type=each))
        assert made.seq == 1
    for each in HOSTILE_IDS:
        (found,) = await events.list_messages(each, user_id=each)
        assert found.thread_id == found.run_id == found.user_id == found.event_type == each
        assert len(await events.list_events(each, each, event_types=HOSTILE_IDS)) == 1
    made = await events.append_batch([event("all", each) for each in HOSTILE_IDS])
    assert seqs(made) == list(range(1, len(HOSTILE_IDS) + 1))
    for each, stored in zip(HOSTILE_IDS, made, strict=True):
        assert await events.list_messages_by_run("all", each) == [stored]


async def test_a_uuid_is_an_id(events: RunEventRepository) -> None:
    thread, run = uuid.uuid4(), uuid.uuid4()
    made = await events.append(event(thread, run, user_id=run))
    assert (made.thread_id, made.run_id) == (str(thread), str(run))
    assert await events.list_messages_by_run(thread, run, user_id=run) == [made]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("thread_id", "x" * 65),
        ("run_id", "x" * 65),
        ("user_id", "x" * 65),
        ("event_type", "x" * 33),
        ("category", "x" * 17),
        ("metadata", {"a": [float("nan")]}),
        ("metadata", {"a": "\x00"}),
        ("metadata", {"a": object()}),
        ("created_at", "yesterday"),
    ],
)
async def test_one_bad_event_is_refused_with_its_index_before_anything_is_stored(
    events: RunEventRepository, field: str, value: Any
) -> None:
    bad = event(**{field: value})
    with pytest.raises(InvalidValueError, match=field) as refused:
        await events.append_batch([event(), event(), bad])
    assert refused.value.index == 2
    assert refused.value.field is not None
    assert refused.value.field.startswith(field)
    for call in (events.append, events.append_if_absent):
        with pytest.raises(InvalidValueError, match=field):
            await call(bad)
    assert await events.count_events() == 0
    assert (await events.append(event())).seq == 1


async def test_the_longest_values_fit(events: RunEventRepository) -> None:
    made = await events.append(
        event(
            "😀" * 64,
            "é" * 64,
            user_id="ü" * 64,
            event_type="ß" * 32,
            category="ö" * 16,
            content="x" * 3_000_000,
        )
    )
    assert await events.list_events("😀" * 64, "é" * 64) == [made]


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3", None])
async def test_a_limit_is_zero_or_more(events: RunEventRepository, limit: Any) -> None:
    with pytest.raises(InvalidValueError, match="limit"):
        await events.list_messages("t", limit=limit)
    with pytest.raises(InvalidValueError, match="limit"):
        await events.list_events("t", "r", limit=limit)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValidationError):
        event(conten="x")


# -- sessions ------------------------------------------------------------------------------------


async def test_what_a_session_appends_lasts_with_its_commit(
    session: Session, events: RunEventRepository
) -> None:
    inside = build_run_event_repository(session)
    assert seqs(await inside.append_batch([event(), event()])) == [1, 2]
    await session.rollback()
    assert (await inside.append_if_absent(event()))[0].seq == 1
    assert await events.count_messages("t") == 0
    await session.commit()
    assert await events.count_messages("t") == 1


async def test_a_refused_event_leaves_the_transaction_usable(
    session: Session, events: RunEventRepository
) -> None:
    inside = build_run_event_repository(session)
    await inside.append(event())
    with pytest.raises(InvalidValueError):
        await inside.append_batch([event(), event(category="x" * 17)])
    await inside.append(event())
    await session.commit()
    assert seqs(await events.list_messages("t")) == [1, 2]


async def test_a_purged_thread_leaves_nothing(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    await fill(events, 3)
    await fill(events, 2, thread_id="other")
    assert await events.purge_thread("t") == 3
    assert await events.purge_thread("t") == 0
    assert raw_sql("SELECT thread_id, last_seq FROM run_event_counters") == [("other", 2)]
    assert await events.count_messages("other") == 2
