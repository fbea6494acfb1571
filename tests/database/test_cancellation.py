"""A call may be cancelled wherever it waits, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from contextlib import suppress

import pytest

from deerstore.database import Database
from deerstore.database.database import Connection
from deerstore.errors import ConcurrentSessionUseError, PoolTimeoutError, QueryExecutionError

WRITER_WAIT = 8.0


@pytest.fixture
async def tight(database, open_database) -> Database:
    """A database of two connections, beside the one that made the tables."""
    return await open_database(pool_size=2, acquire_timeout=10, busy_timeout=WRITER_WAIT)


async def assert_whole(database: Database, server, catalog) -> None:
    """No connection is lent, in a transaction or at work, and both of them answer."""
    pool, turns = database.pool, database._connections.reading.turns

    async def nothing_is_held() -> None:
        if turns is None:
            assert (len(pool._lent), pool.waiting) == (0, 0)
        # A connection in the making outlives its caller for a moment, and may serve the next one;
        # on SQLite a trip may have given out its results and be on its way home.
        for _ in range(200):
            running = 0 if turns is None else turns.running
            held = (pool.in_use, pool.waiting, running)
            if held == (0, 0, 0):
                return
            await asyncio.sleep(0.01)
        assert held == (0, 0, 0)

    await nothing_is_held()
    if server is not None:
        busy = await server.busy()
        # MariaDB's list of transactions is a copy, made anew when nobody has read it for 0.1 s. Who
        # is on it without a statement is looked at again.
        for _ in range(10):
            if not all(text.startswith("(") for text in busy) or not busy:
                break
            await asyncio.sleep(0.3)
            busy = await server.busy()
        assert busy == []
    await asyncio.gather(*(database.fetch_value(catalog["notes.count"]) for _ in range(4)))
    await nothing_is_held()


async def cancelled_after(seconds: float, work) -> bool:
    """Whether the work was cancelled before it was done."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(seconds)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def test_a_cancelled_read_is_stopped_on_the_server(tight, server, catalog):
    started = time.monotonic()
    assert await cancelled_after(0.2, tight.fetch_value(catalog["slow.read"], seconds=20.0))
    assert time.monotonic() - started < 4
    await assert_whole(tight, server, catalog)


async def test_a_cancelled_write_is_stopped_and_holds_no_lock(
    database, tight, server, catalog, notes
):
    await notes.add(database, 1, score=1)
    started = time.monotonic()
    assert await cancelled_after(0.2, tight.execute(catalog["slow.write"], seconds=20.0))
    await database.execute(catalog["notes.set_score"], id=1, score=7)
    assert time.monotonic() - started < 4
    assert (await database.fetch_one(catalog["notes.get"], id=1))["score"] == 7
    await assert_whole(tight, server, catalog)


async def test_a_statement_that_takes_too_long_is_stopped_in_the_same_way(
    database, open_database, server, catalog, notes
):
    hurried = await open_database(pool_size=1, command_timeout=0.3)
    await notes.add(database, 1, score=1)
    for query in ("slow.read", "slow.write"):
        started = time.monotonic()
        with pytest.raises(QueryExecutionError, match=r"command_timeout=0\.3 s") as caught:
            await hurried.execute(catalog[query], seconds=20.0)
        assert caught.value.sqlstate == "57014"
        assert caught.value.query == query
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert time.monotonic() - started < 4
    await database.execute(catalog["notes.set_score"], id=1, score=7)
    await assert_whole(hurried, server, catalog)
    # A deadline that is over does not reach into what comes next.
    for _ in range(5):
        await asyncio.sleep(0.1)
        await hurried.fetch_value(catalog["notes.count"])


async def test_a_cancellation_from_outside_is_not_taken_for_the_deadline(
    open_database, database, catalog
):
    patient = await open_database(command_timeout=0.2)
    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(0.05):
            await patient.fetch_value(catalog["slow.read"], seconds=20.0)
    task = asyncio.ensure_future(patient.fetch_value(catalog["slow.read"], seconds=20.0))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("end", ["cancel", "deadline"])
async def test_a_stopped_statement_ends_the_sessions_transaction_until_it_is_rolled_back(
    database, open_database, server, catalog, notes, end
):
    bundle = await open_database(pool_size=1, command_timeout=0.3 if end == "deadline" else 30)
    async with bundle.session() as session:
        await notes.add(session, 1, score=1)
        if end == "cancel":
            assert await cancelled_after(0.2, session.execute(catalog["slow.write"], seconds=20.0))
        else:
            with pytest.raises(QueryExecutionError):
                await session.execute(catalog["slow.write"], seconds=20.0)
        # Others go on at once.
        await notes.add(database, 2)
        for refused in (session.commit, lambda: notes.add(session, 3), lambda: notes.ids(session)):
            with pytest.raises(QueryExecutionError, match="rollback"):
                await refused()
        await session.rollback()
        assert await notes.ids(session) == [2]
        await notes.add(session, 4)
        await session.commit()
    assert await notes.ids(database) == [2, 4]
    await assert_whole(bundle, server, catalog)


async def test_a_stopped_read_before_the_first_write_costs_the_session_nothing(
    tight, server, catalog, notes
):
    async with tight.session() as session:
        assert await cancelled_after(0.2, session.fetch_value(catalog["slow.read"], seconds=20.0))
        await notes.add(session, 1)
        await session.commit()
    assert await notes.ids(tight) == [1]
    await assert_whole(tight, server, catalog)


async def test_a_session_that_is_cancelled_in_its_block_rolls_back(
    database, tight, server, catalog, notes
):
    async def unit() -> None:
        async with tight.transaction() as session:
            await notes.add(session, 1)
            await session.fetch_value(catalog["slow.read"], seconds=20.0)

    assert await cancelled_after(0.3, unit())
    await notes.add(database, 1)
    await assert_whole(tight, server, catalog)


async def test_a_cancelled_wait_for_another_writer_leaves_the_queue_in_order(
    database, tight, server, catalog, notes
):
    await notes.add(database, 1, score=0)
    async with database.session() as holder:
        await holder.execute(catalog["notes.set_score"], id=1, score=1)
        waiting = [
            asyncio.ensure_future(tight.execute(catalog["notes.raise_scores"])) for _ in range(3)
        ]
        await asyncio.sleep(0.2)
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.sleep(0.2)
        assert [task.done() for task in waiting] == [True, True, False]
        await holder.commit()
    await waiting[2]
    assert (await database.fetch_one(catalog["notes.get"], id=1))["score"] == 2
    await assert_whole(tight, server, catalog)


async def test_a_cancelled_wait_for_a_connection_leaves_no_hole(tight, server, catalog, notes):
    async with tight.session() as one, tight.session() as two:
        await notes.ids(one)
        await notes.ids(two)
        assert await cancelled_after(0.05, notes.ids(tight))
        with pytest.raises((PoolTimeoutError, TimeoutError)):
            async with asyncio.timeout(0.05):
                await tight.fetch_value(catalog["notes.count"])
    await assert_whole(tight, server, catalog)


async def test_cancelling_while_a_connection_is_made_leaves_no_failure_to_nobody(
    open_database, server, catalog
):
    complaints = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    database = await open_database()
    pool = database.pool
    for turns in range(40):
        while connection := pool.take():
            pool.discard(connection)
        callers = [asyncio.ensure_future(pool.acquire()) for _ in range(3)]
        for _ in range(turns // 2):
            await asyncio.sleep(0)
        if turns % 2:
            await asyncio.sleep(turns / 8_000)
        for caller in callers:
            caller.cancel()
        for connection in await asyncio.gather(*callers, return_exceptions=True):
            if not isinstance(connection, BaseException):
                pool.release(connection)
    await database.aclose()
    gc.collect()
    assert complaints == []
    assert (pool.in_use, pool.idle) == (0, 0)
    if server is not None:
        await asyncio.sleep(0.1)
        assert await server.clients() == []


async def test_a_cancelled_commit_discards_the_connection(
    tight, server, catalog, notes, monkeypatch
):
    async with tight.session() as session:
        await notes.add(session, 1)
        connection: Connection = session._connection

        async def never() -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr(connection, "commit", never)
        assert await cancelled_after(0.05, session.commit())
        with pytest.raises(QueryExecutionError, match="rollback"):
            await notes.ids(session)
        assert connection.closed
        await session.rollback()
        assert await notes.ids(session) == []
    await assert_whole(tight, server, catalog)


async def test_a_call_cancelled_twice_is_cleaned_up_all_the_same(tight, server, catalog):
    for _ in range(3):
        task = asyncio.ensure_future(tight.fetch_value(catalog["slow.read"], seconds=20.0))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # The clean-up outlives its caller.
    for _ in range(500):
        if not tight.pool.in_use:
            break
        await asyncio.sleep(0.01)
    await assert_whole(tight, server, catalog)


@pytest.mark.parametrize("seed", [1, 2])
async def test_cancelling_at_any_moment_leaves_everything_whole(
    database, tight, server, catalog, notes, seed
):
    chance = random.Random(seed)
    await notes.add(database, 1, score=0)
    number = 1_000

    async def unit(base: int) -> None:
        async with tight.transaction() as session:
            await notes.add(session, base)
            async with session.begin_nested():
                await notes.add(session, base + 1)
            await session.execute_many(
                catalog["notes.add_uncounted"],
                [{"id": base + n, "author": f"{base + n}"} for n in range(2, 10)],
            )

    async def batch(base: int) -> None:
        rows = [{"id": base + n, "author": f"{base + n}"} for n in range(10)]
        await tight.execute_many(catalog["notes.add_uncounted"], rows)

    async def series(base: int) -> None:
        # Two of them at once may choose the same keys.
        with suppress(QueryExecutionError):
            await tight.execute(
                catalog["notes.add_series"], authors=[f"s{base + n}" for n in range(10)]
            )

    async def streamed(_: int) -> None:
        async for _row in tight.stream(catalog["notes.numbers"], batch=50, last=3_000):
            pass

    async def single(_: int) -> None:
        await tight.execute(catalog["notes.raise_scores"])

    for _ in range(40):
        jobs = []
        for _ in range(3):
            number += 100
            kind = chance.choice([unit, batch, series, streamed, single])
            jobs.append(cancelled_after(chance.uniform(0, 0.02), kind(number)))
        await asyncio.gather(*jobs)
    await notes.add(tight, 1_000_000)
    await assert_whole(tight, server, catalog)
    # Every unit is there as a whole or not at all.
    assert (await tight.fetch_value(catalog["notes.count"]) - 2) % 10 == 0


async def test_two_coroutines_that_are_cancelled_together_confuse_nobody(
    tight, server, catalog, notes
):
    async with tight.session() as session:
        slow = asyncio.ensure_future(session.fetch_value(catalog["slow.read"], seconds=20.0))
        await asyncio.sleep(0.05)
        with pytest.raises(ConcurrentSessionUseError):
            await notes.ids(session)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await notes.ids(session) == []
    await assert_whole(tight, server, catalog)
