"""Streams: many rows, few of them in memory."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from deerstore.errors import ConcurrentSessionUseError, InvalidValueError


async def test_a_stream_gives_every_row_once_and_in_order(database, catalog):
    rows = [row["n"] async for row in database.stream(catalog["notes.numbers"], last=1_234)]
    assert rows == list(range(1, 1_235))
    assert [row async for row in database.stream(catalog["notes.numbers"], batch=1, last=3)] == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]


async def test_leaving_a_stream_early_gives_the_connection_back(open_database, catalog):
    database = await open_database(pool_size=1, acquire_timeout=5)
    await database.execute(catalog["notes.create_table"])
    for _ in range(3):
        async with aclosing(database.stream(catalog["notes.numbers"], last=90_000)) as rows:
            async for row in rows:
                if row["n"] == 700:
                    break
        assert database.pool.in_use == 0
        assert await database.fetch_value(catalog["notes.count"]) == 0
    async for _ in database.stream(catalog["notes.numbers"], last=90_000):
        break
    # Nobody closed that one: the event loop does, and the next call waits for it.
    assert await database.fetch_value(catalog["notes.count"]) == 0


async def test_a_stream_of_a_session_sees_what_it_wrote_and_keeps_the_transaction(
    database, catalog, notes
):
    async with database.session() as session:
        for number in range(1, 21):
            await notes.add(session, number)
        seen = [row["id"] async for row in session.stream(catalog["notes.list"], batch=7)]
        assert seen == list(range(1, 21))
        async with aclosing(session.stream(catalog["notes.list"], batch=2)) as rows:
            async for _ in rows:
                break
        await notes.add(session, 21)
        await session.commit()
    assert await database.fetch_value(catalog["notes.count"]) == 21


async def test_a_loop_over_a_stream_of_a_session_may_be_left(database, catalog, notes):
    async with database.session() as session:
        for number in range(1, 21):
            await notes.add(session, number)
        async for _ in session.stream(catalog["notes.list"], batch=2):
            break
        await notes.add(session, 21)
        async for _ in session.stream(catalog["notes.list"], batch=2):
            break
        await session.commit()
        async for _ in session.stream(catalog["notes.list"], batch=2):
            break
        async for row in session.stream(catalog["notes.list"], batch=2):
            assert row["id"] == 1
            break
    assert database.pool.in_use == 0
    assert await database.fetch_value(catalog["notes.count"]) == 21


async def test_an_exception_in_a_loop_over_a_stream_leaves_the_session_as_itself(
    database, catalog, notes
):
    await notes.add(database, 1)

    async def fail():
        async with database.session() as session:
            async for _ in session.stream(catalog["notes.list"]):
                raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail()


async def test_a_session_that_streams_is_in_use(database, catalog, notes):
    for number in range(1, 21):
        await notes.add(database, number)
    async with database.session() as session:
        async with aclosing(session.stream(catalog["notes.list"], batch=2)) as rows:
            async for _ in rows:
                with pytest.raises(ConcurrentSessionUseError):
                    await notes.add(session, 99)
                break
        await notes.add(session, 21)
        await session.commit()
    assert await database.fetch_value(catalog["notes.count"]) == 21


async def test_an_exception_in_the_loop_closes_the_stream(database, catalog):
    async def broken() -> None:
        async with aclosing(database.stream(catalog["notes.numbers"], last=5_000)) as rows:
            async for _ in rows:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()
    assert database.pool.in_use == 0


async def test_only_reading_queries_stream(database, catalog):
    with pytest.raises(InvalidValueError, match="writes"):
        async for _ in database.stream(catalog["notes.remove"], id=1):
            pass
    for batch in (0, -1, True, "5"):
        with pytest.raises(InvalidValueError, match="batch"):
            async for _ in database.stream(catalog["notes.list"], batch=batch):
                pass
