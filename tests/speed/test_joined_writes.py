"""SQLite: writers that have to wait share a commit; one that need not never comes near it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from deerstore.database import Database
from deerstore.database.sqlite_thread import ThreadSide
from deerstore.errors import QueryExecutionError, RetryableError
from deerstore.repositories import (
    FeedbackCreate,
    RunEventCreate,
    build_feedback_repository,
    build_run_event_repository,
)

pytestmark = pytest.mark.engines("sqlite", why="only SQLite lets one writer in at a time")


@pytest.fixture
async def database(engine, migrated_config) -> AsyncIterator[Database]:
    async with Database(migrated_config) as database:
        yield database


@pytest.fixture
def groups(monkeypatch) -> list[int]:
    """How many writers each shared transaction had."""
    sizes: list[int] = []
    together = ThreadSide.run_writes

    def counted(self, writes):
        sizes.append(len(writes))
        return together(self, writes)

    monkeypatch.setattr(ThreadSide, "run_writes", counted)
    return sizes


async def command(database: Database, sql: str) -> None:
    await database.on_connection(
        lambda connection: connection.apply(lambda raw: raw.execute(sql)), writes=True
    )


def event(thread: str, text: str = "") -> RunEventCreate:
    return RunEventCreate(
        thread_id=thread, run_id="r", event_type="t", category="message", content=text
    )


async def test_waiting_writers_share_a_commit(database, groups):
    events = build_run_event_repository(database)
    appended = await asyncio.gather(*(events.append(event("t", str(n))) for n in range(40)))
    assert sorted(each.seq for each in appended) == list(range(1, 41))
    stored = await events.list_messages("t", limit=100)
    assert {(each.seq, each.content) for each in stored} == {
        (each.seq, each.content) for each in appended
    }
    assert sum(groups) >= 30
    assert len(groups) <= 3


async def test_a_lone_writer_has_a_transaction_of_its_own(database, groups):
    events = build_run_event_repository(database)
    for number in range(5):
        await events.append(event("t", str(number)))
    assert groups == []


async def test_one_that_fails_leaves_the_others_as_they_are(database, groups):
    events, ratings = build_run_event_repository(database), build_feedback_repository(database)
    await command(database, "DROP TABLE feedback")
    outcomes = await asyncio.gather(
        *(events.append_batch([event("t"), event("t")]) for _ in range(5)),
        ratings.create_feedback(
            FeedbackCreate(feedback_id="f", run_id="r", thread_id="t", rating=1)
        ),
        *(events.append_batch([event("t"), event("t")]) for _ in range(5)),
        return_exceptions=True,
    )
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(error) for error in failed] == [QueryExecutionError]
    assert "feedback.create_feedback" in str(failed[0])
    assert "no such table" in str(failed[0].__cause__)
    assert await events.count_messages("t") == 20
    assert groups
    assert not database.pool.in_use


async def test_a_batch_that_fails_half_way_leaves_nothing(database, groups):
    """The insert breaks on a row that a trigger refuses; its counter goes back, too."""
    events = build_run_event_repository(database)
    await command(
        database,
        "CREATE TRIGGER refuse BEFORE INSERT ON run_events WHEN NEW.content = 'bad' "
        "BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    outcomes = await asyncio.gather(
        events.append(event("t", "first")),
        events.append(event("t", "good")),
        events.append_batch([event("t", "good"), event("t", "bad")]),
        events.append(event("t", "good")),
        return_exceptions=True,
    )
    assert [isinstance(outcome, BaseException) for outcome in outcomes] == [0, 0, 1, 0]
    assert [each.seq for each in await events.list_messages("t")] == [1, 2, 3]
    assert groups == [3]


async def test_a_cancelled_writer_is_left_out(database, groups):
    events = build_run_event_repository(database)
    async with database.transaction() as session:
        await build_run_event_repository(session).append(event("t", "holds the gate"))
        tasks = [asyncio.ensure_future(events.append(event("t", str(n)))) for n in range(4)]
        await asyncio.sleep(0.02)
        tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    contents = [each.content for each in await events.list_messages("t")]
    assert contents == ["holds the gate", "0", "2", "3"]
    assert groups == [3]


async def test_a_writer_that_is_cancelled_in_the_middle_knows_where_it_stands(
    database, groups, monkeypatch
):
    """Either all of its batch is there when the cancelled call has come back, or nothing."""
    events = build_run_event_repository(database)
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.004):
        thread = f"t{delay}"
        tasks = [
            asyncio.ensure_future(events.append_batch([event(thread, str(n))] * 50))
            for n in range(6)
        ]
        await asyncio.sleep(delay)
        tasks[3].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        stored = [each.content for each in await events.list_messages(thread, limit=1_000)]
        assert stored.count("3") in ((0, 50) if isinstance(done[3], BaseException) else (50,))
        for number in (0, 1, 2, 4, 5):
            assert stored.count(str(number)) == 50


async def test_who_waits_in_vain_is_told_so(engine, migrated_config, groups):
    config = migrated_config.model_copy(update={"busy_timeout": 0.2})
    async with Database(config) as database:
        events = build_run_event_repository(database)
        async with database.transaction() as session:
            await build_run_event_repository(session).append(event("t"))
            outcomes = await asyncio.gather(
                *(events.append(event("t")) for _ in range(3)), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [RetryableError] * 3
            assert len({id(outcome) for outcome in outcomes}) == 3
            assert "run_events.append_batch" in str(outcomes[0])
        assert (await events.append(event("t"))).seq == 2


async def test_a_delete_is_never_joined(database, groups):
    events = build_run_event_repository(database)
    await events.append(event("t"))
    async with database.transaction() as session:
        await build_run_event_repository(session).append(event("other"))
        tasks = [asyncio.ensure_future(events.delete_by_thread("t")) for _ in range(3)]
        await asyncio.sleep(0.02)
    assert sorted(await asyncio.gather(*tasks)) == [0, 0, 1]
    assert groups == []
