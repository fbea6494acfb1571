"""Many reads at once: each gets what is its own, and what befalls one is nobody else's affair."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import time
from collections.abc import Sequence

import pytest

from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.database.joined_reads import JoinedRead, ReadingTrip
from deerstore.database.sqlite_thread import ThreadSide
from deerstore.errors import (
    ConnectionLostError,
    DeerstoreError,
    NotFoundError,
    PoolTimeoutError,
    QueryExecutionError,
)
from tests.database.test_cancellation import assert_whole, cancelled_after

NOTES = 50


@pytest.fixture
async def written(database, notes):
    for number in range(NOTES):
        await notes.add(database, number, score=number)
    return database


def started(database, catalog, count: int, *, long: Sequence[int] = ()) -> list[asyncio.Task]:
    """So many reads at once; those at the places of ``long`` do not end by themselves."""
    return [
        asyncio.ensure_future(
            database.fetch_value(catalog["slow.read"], seconds=20.0)
            if number in long
            else database.fetch_value(catalog["notes.count"])
        )
        for number in range(count)
    ]


async def test_each_gets_what_it_asked_for(written, open_database, catalog):
    narrow = await open_database(pool_size=2)

    async def one(number: int) -> None:
        for _ in range(3):
            row = await narrow.fetch_one(catalog["notes.get"], id=number)
            assert (row["id"], row["author"]) == (number, f"author {number}")
            assert await narrow.fetch_value(catalog["notes.count"]) == NOTES
            listed = await narrow.fetch_all(catalog["notes.among"], ids=[number, -1])
            assert [each["id"] for each in listed] == [number]
            untyped = await narrow.fetch_one(catalog["notes.only"], score=number)
            assert dict(untyped) == {"id": number, "author": f"author {number}"}

    await asyncio.gather(*(one(number) for number in range(NOTES)))
    await assert_whole(narrow, None, catalog)


async def test_each_sees_what_was_committed_before_it_was_asked(written, open_database, catalog):
    narrow = await open_database(pool_size=2)
    stop = False

    async def noise() -> None:
        while not stop:
            await narrow.fetch_value(catalog["notes.count"])

    busy = [asyncio.ensure_future(noise()) for _ in range(8)]
    try:
        for score in range(100, 150):
            await narrow.execute(catalog["notes.set_score"], id=1, score=score)
            assert (await narrow.fetch_one(catalog["notes.get"], id=1))["score"] == score
    finally:
        stop = True
        await asyncio.gather(*busy)


async def test_one_that_fails_fails_alone(written, open_database, catalog):
    narrow = await open_database(pool_size=1)
    outcomes = await asyncio.gather(
        *(
            narrow.fetch_value(catalog["notes.lost" if number % 5 == 2 else "notes.count"])
            for number in range(20)
        ),
        narrow.fetch_one(catalog["notes.get"], id=-1),
        return_exceptions=True,
    )
    failed = [outcome for outcome in outcomes[:20] if outcome != NOTES]
    assert [outcomes.index(error) for error in failed] == [2, 7, 12, 17]
    assert all(isinstance(error, QueryExecutionError) for error in failed)
    assert {error.query for error in failed} == {"notes.lost"}
    assert isinstance(outcomes[20], NotFoundError)
    await assert_whole(narrow, None, catalog)


async def test_those_that_fail_together_leave_the_others_alone(written, open_database, catalog):
    """A group that is cancelled for its first failure: most of it is in the middle of something."""
    narrow = await open_database(pool_size=2)

    async def failing() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(narrow.fetch_value(catalog["notes.lost"]))

    for _ in range(40):
        outcomes = await asyncio.gather(
            *(narrow.fetch_value(catalog["notes.count"]) for _ in range(10)),
            failing(),
            *(narrow.fetch_value(catalog["notes.count"]) for _ in range(10)),
            return_exceptions=True,
        )
        group = outcomes.pop(10)
        assert isinstance(group, ExceptionGroup)
        assert all(isinstance(error, QueryExecutionError) for error in group.exceptions)
        assert outcomes == [NOTES] * 20
    await assert_whole(narrow, None, catalog)


async def test_one_that_takes_too_long_is_stopped_alone(written, open_database, catalog):
    narrow = await open_database(pool_size=2, command_timeout=2)
    reads = started(narrow, catalog, 20, long=(7,))
    since = time.monotonic()
    others = [each for number, each in enumerate(reads) if number != 7]
    assert await asyncio.gather(*others) == [NOTES] * 19
    assert not reads[7].done()
    with pytest.raises(QueryExecutionError, match=r"slow\.read.*command_timeout=2 s"):
        await reads[7]
    assert time.monotonic() - since < 8
    await assert_whole(narrow, None, catalog)


async def test_one_that_is_cancelled_is_stopped_alone(written, open_database, server, catalog):
    narrow = await open_database(pool_size=2)
    reads = started(narrow, catalog, 20, long=(7,))
    await asyncio.sleep(0.2)
    since = time.monotonic()
    reads[7].cancel()
    outcomes = await asyncio.gather(*reads, return_exceptions=True)
    assert time.monotonic() - since < 3
    assert isinstance(outcomes.pop(7), asyncio.CancelledError)
    assert outcomes == [NOTES] * 19
    await assert_whole(narrow, server, catalog)


async def test_any_may_be_cancelled_at_any_time(written, open_database, server, catalog):
    narrow = await open_database(pool_size=2)
    draw = random.Random(7)

    async def one(number: int) -> int:
        row = await narrow.fetch_one(catalog["notes.get"], id=number)
        assert row["id"] == number
        return await narrow.fetch_value(catalog["notes.count"])

    for _ in range(30):
        reads = [asyncio.ensure_future(one(number)) for number in range(NOTES)]
        doomed = draw.sample(range(NOTES), 10)
        for number in doomed:
            await asyncio.sleep(draw.random() * 0.002)
            reads[number].cancel()
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        for number, outcome in enumerate(outcomes):
            left = number in doomed and isinstance(outcome, asyncio.CancelledError)
            assert left or outcome == NOTES
    await assert_whole(narrow, server, catalog)


async def test_what_was_read_before_a_long_read_does_not_wait_for_it(
    written, open_database, catalog
):
    narrow = await open_database(pool_size=3)
    reads = started(narrow, catalog, 13, long=(6,))
    long = reads.pop(6)
    async with asyncio.timeout(10):
        assert await asyncio.gather(*reads) == [NOTES] * 12
    assert not long.done()
    long.cancel()
    await asyncio.wait({long})
    await assert_whole(narrow, None, catalog)


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_a_thread_that_comes_late_keeps_nobody_waiting(
    written, open_database, catalog, monkeypatch
):
    """The looks at a trip have begun before its first read has."""
    run_reads = ThreadSide.run_reads

    def late(self, waiting, trip):
        time.sleep(0.05)
        run_reads(self, waiting, trip)

    monkeypatch.setattr(ThreadSide, "run_reads", late)
    narrow = await open_database(pool_size=1, command_timeout=2)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        *first, long = started(narrow, catalog, 4, long=(3,))
        await asyncio.sleep(0.05)
    assert await asyncio.gather(*first) == [NOTES] * 3
    assert not long.done()
    with pytest.raises(QueryExecutionError, match=r"slow\.read.*command_timeout=2 s"):
        await long
    await assert_whole(narrow, None, catalog)


async def test_when_every_task_is_cancelled_the_next_reads_work(written, open_database, catalog):
    narrow = await open_database(pool_size=2)
    for rounds in range(6):
        reads = started(narrow, catalog, 8)
        for _ in range(rounds):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait(reads)
        async with asyncio.timeout(10):
            again = [narrow.fetch_value(catalog["notes.count"]) for _ in range(8)]
            assert await asyncio.gather(*again) == [NOTES] * 8
    await assert_whole(narrow, None, catalog)


async def test_reads_that_clean_up_while_the_program_ends_are_served(written, url, catalog):
    outcomes: list[object] = []

    async def program() -> None:
        database = await Database.open(StorageConfig(database_url=url, pool_size=2))

        async def one() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                outcomes.append(await database.fetch_value(catalog["notes.count"]))

        tasks = [asyncio.ensure_future(one()) for _ in range(12)]
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        try:
            await asyncio.gather(*tasks)
        finally:
            await asyncio.wait(tasks)
            await database.aclose()

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(program())

    await asyncio.to_thread(run)
    assert outcomes == [NOTES] * 12


async def test_many_thousand_may_leave_at_once(written, open_database, catalog):
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        made = -time.process_time()
        reads = started(narrow, catalog, 20_000)
        await asyncio.sleep(0)
        made += time.process_time()
        since = time.process_time()
        for each in reversed(reads):
            each.cancel()
        await asyncio.wait(reads)
        # Many times that, if each had to be looked for among the others.
        assert time.process_time() - since < 3 + 3 * made
    await assert_whole(narrow, None, catalog)


async def test_long_reads_that_were_cancelled_in_the_queue_are_never_run(
    written, open_database, catalog
):
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = started(narrow, catalog, 5, long=(1, 3))
        await asyncio.sleep(0.05)
        reads[1].cancel()
        reads[3].cancel()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
    assert [outcome == NOTES for outcome in outcomes] == [True, False, True, False, True]
    await assert_whole(narrow, None, catalog)


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_an_interrupt_that_was_meant_for_another_does_no_harm(
    written, open_database, catalog, monkeypatch
):
    trips: list[ReadingTrip] = []

    class Noted(ReadingTrip):
        def __init__(self, connection) -> None:
            super().__init__(connection)
            trips.append(self)

    monkeypatch.setattr("deerstore.database.joined_reads.ReadingTrip", Noted)
    narrow = await open_database(pool_size=2)
    reads = [
        asyncio.ensure_future(narrow.fetch_value(catalog["slow.count"], numbers=1_000_000))
        for _ in range(3)
    ]
    interrupted = 0
    while interrupted < 20 and not all(each.done() for each in reads):
        await asyncio.sleep(0.001)
        for trip in trips:
            if trip.current is not None:
                trip.connection.interrupt()
                interrupted += 1
    assert interrupted
    assert await asyncio.gather(*reads) == [1_000_000] * 3
    await assert_whole(narrow, None, catalog)


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_readers_that_wait_are_served_though_what_waits_for_them_is_cancelled(
    written, open_database, catalog
):
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = started(narrow, catalog, 6)
        await asyncio.sleep(0.05)
        entering = narrow._connections.joined_reads._entering
        assert entering is not None
        entering.cancel()
        await asyncio.sleep(0.05)
    async with asyncio.timeout(10):
        assert await asyncio.gather(*reads) == [NOTES] * 6
    await assert_whole(narrow, None, catalog)


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_nothing_is_kept_of_reads_that_are_over(written, open_database, catalog):
    narrow = await open_database(pool_size=2)
    await asyncio.gather(*(narrow.fetch_all(catalog["notes.list"]) for _ in range(50)))
    long = [
        asyncio.ensure_future(narrow.fetch_value(catalog["slow.read"], seconds=20.0))
        for _ in range(2)
    ]
    await asyncio.sleep(0.1)
    for each in long:
        each.cancel()
    await asyncio.wait(long)
    del long, each
    await assert_whole(narrow, None, catalog)
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, JoinedRead | ReadingTrip)]
    # The driver's threads hold on to what they did last.
    assert not any(isinstance(each, JoinedRead) for each in kept)
    assert len(kept) <= narrow.pool.size


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_a_trip_that_finds_the_file_broken_gives_its_connection_up(
    written, open_database, catalog, monkeypatch
):
    narrow = await open_database(pool_size=2)
    run = ThreadSide.run
    used: list[ThreadSide] = []

    def broken(self, query, *rest):
        if query.name == "notes.get":
            used.append(self)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return run(self, query, *rest)

    monkeypatch.setattr(ThreadSide, "run", broken)
    outcomes = await asyncio.gather(
        *(narrow.fetch_value(catalog["notes.count"]) for _ in range(4)),
        narrow.fetch_optional(catalog["notes.get"], id=1),
        return_exceptions=True,
    )
    assert outcomes[:4] == [NOTES] * 4
    assert isinstance(outcomes[4], QueryExecutionError)
    (side,) = used
    await assert_whole(narrow, None, catalog)
    assert side.gone


@pytest.mark.engines("sqlite", why="no other engine has two readers share a trip")
async def test_a_connection_that_cannot_be_interrupted_is_given_up(
    written, open_database, catalog, monkeypatch
):
    monkeypatch.setattr("deerstore.database.joined_reads._PATIENCE", 0.1)
    monkeypatch.setattr("deerstore.database.sqlite.SQLiteConnection.interrupt", lambda _: None)
    narrow = await open_database(pool_size=2)
    reads = started(narrow, catalog, 6, long=(3,))
    assert await asyncio.gather(*reads[:3], *reads[4:]) == [NOTES] * 5
    (side,) = {lent._side for lent in narrow.pool._lent if lent._side._reader is not None}
    assert await cancelled_after(0, reads[3])
    assert side.gone
    await assert_whole(narrow, None, catalog)


async def test_all_are_cancelled_while_no_connection_is_free(written, open_database, catalog):
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = started(narrow, catalog, 8)
        await asyncio.sleep(0.05)
        for each in reads:
            each.cancel()
        await asyncio.wait(reads)
        assert all(each.cancelled() for each in reads)
        await asyncio.sleep(0)
        assert narrow.pool.waiting == 0
    await assert_whole(narrow, None, catalog)


async def test_nobody_waits_for_a_connection_longer_than_was_said(written, open_database, catalog):
    narrow = await open_database(pool_size=1, acquire_timeout=0.4)

    async def refused_after(delay: float) -> float:
        await asyncio.sleep(delay)
        since = time.monotonic()
        with pytest.raises(PoolTimeoutError) as caught:
            await narrow.fetch_value(catalog["notes.count"])
        assert caught.value.size == caught.value.in_use == 1
        assert 0.35 < caught.value.waited < 3
        return time.monotonic() - since

    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        waits = await asyncio.gather(*(refused_after(0.07 * number) for number in range(8)))
    assert all(0.35 < wait < 3 for wait in waits), waits
    await assert_whole(narrow, None, catalog)


async def test_who_gives_up_in_the_moment_of_a_refusal_is_not_told_twice(
    written, open_database, catalog, caplog
):
    narrow = await open_database(pool_size=1, acquire_timeout=0.2)

    async def impatient(seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await narrow.fetch_value(catalog["notes.count"])

    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        outcomes = await asyncio.gather(
            *(impatient(0.19 + 0.001 * number) for number in range(20)), return_exceptions=True
        )
    assert {type(outcome) for outcome in outcomes} <= {TimeoutError, PoolTimeoutError}
    gc.collect()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    await assert_whole(narrow, None, catalog)


async def test_closing_does_not_wait_for_those_who_keep_coming(written, open_database, catalog):
    narrow = await open_database(pool_size=2)
    served = 0

    async def reader() -> None:
        nonlocal served
        while True:
            await narrow.fetch_value(catalog["notes.count"])
            served += 1

    readers = [asyncio.ensure_future(reader()) for _ in range(8)]
    await asyncio.sleep(0.1)
    since, before = time.monotonic(), served
    await narrow.aclose()
    assert time.monotonic() - since < 5
    outcomes = await asyncio.gather(*readers, return_exceptions=True)
    assert served - before <= 8
    assert {str(outcome) for outcome in outcomes} == {"the database is closed"}


async def test_those_who_wait_are_told_that_the_database_is_closed(
    written, open_database, catalog, monkeypatch
):
    monkeypatch.setattr("deerstore.database.calls._GRACE", 0.1)
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = started(narrow, catalog, 4)
        await asyncio.sleep(0.05)
        since = time.monotonic()
        await narrow.aclose()
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert time.monotonic() - since < 5
    assert all(isinstance(outcome, DeerstoreError) for outcome in outcomes), outcomes
    assert {str(outcome) for outcome in outcomes} == {"the database is closed"}


async def test_those_whose_call_is_destroyed_leave_no_trace(written, open_database, catalog):
    narrow = await open_database(pool_size=1)
    await narrow.fetch_value(catalog["notes.count"])
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = [narrow.fetch_value(catalog["notes.count"]) for _ in range(4)]
        for each in reads:
            each.send(None)
        for each in reads[1:]:
            each.close()
        reads[0].close()
        del reads, each
        gc.collect()
    await asyncio.sleep(0.05)
    await assert_whole(narrow, None, catalog)


@pytest.mark.engines("sqlite", why="a server goes on until it finds the connection closed")
async def test_a_running_read_whose_call_is_destroyed_is_stopped(written, open_database, catalog):
    narrow = await open_database(pool_size=4)
    await narrow.fetch_value(catalog["slow.read"], seconds=0.0)
    reads = [narrow.fetch_value(catalog["slow.read"], seconds=20.0) for _ in range(3)]
    for each in reads:
        each.send(None)
    await asyncio.sleep(0.2)
    for each in reads:
        each.close()
    del reads, each
    gc.collect()
    await asyncio.sleep(0.1)
    await assert_whole(narrow, None, catalog)


async def test_when_no_connection_can_be_made_each_is_told_so(
    written, open_database, catalog, monkeypatch, caplog
):
    narrow = await open_database(pool_size=2)

    async def refuse() -> None:
        # In the same moment one of those who wait gives up.
        reads[4].cancel()
        raise ConnectionLostError("out of order")

    for pooled in list(narrow.pool._idle):
        pooled.terminate()
    monkeypatch.setattr(narrow.pool, "_connect", refuse)
    reads = started(narrow, catalog, 6)
    outcomes = await asyncio.gather(*reads, return_exceptions=True)
    assert isinstance(outcomes.pop(4), ConnectionLostError | asyncio.CancelledError)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLostError] * 5
    assert len({id(outcome) for outcome in outcomes}) == 5
    gc.collect()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    monkeypatch.undo()
    await assert_whole(narrow, None, catalog)
