"""Many reads at once: each gets what is its own, and what befalls one is nobody else's affair."""

from __future__ import annotations

import asyncio
import gc
import random
import time

import pytest

from deerstore.errors import (
    ConnectionLostError,
    DeerstoreError,
    NotFoundError,
    PoolTimeoutError,
    QueryExecutionError,
)
from tests.database.test_cancellation import assert_whole

NOTES = 50


@pytest.fixture
async def written(database, notes):
    for number in range(NOTES):
        await notes.add(database, number, score=number)
    return database


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


async def test_one_that_takes_too_long_is_stopped_alone(written, open_database, catalog):
    narrow = await open_database(pool_size=2, command_timeout=0.5)
    reads = [
        asyncio.ensure_future(
            narrow.fetch_value(catalog["slow.read"], seconds=20.0)
            if number == 7
            else narrow.fetch_value(catalog["notes.count"])
        )
        for number in range(20)
    ]
    started = time.monotonic()
    others = [each for number, each in enumerate(reads) if number != 7]
    assert await asyncio.gather(*others) == [NOTES] * 19
    assert time.monotonic() - started < 0.4
    with pytest.raises(QueryExecutionError, match=r"slow\.read.*command_timeout=0\.5 s"):
        await reads[7]
    assert time.monotonic() - started < 4
    await assert_whole(narrow, None, catalog)


async def test_one_that_is_cancelled_is_stopped_alone(written, open_database, server, catalog):
    narrow = await open_database(pool_size=2)
    reads = [
        asyncio.ensure_future(
            narrow.fetch_value(catalog["slow.read"], seconds=20.0)
            if number == 7
            else narrow.fetch_value(catalog["notes.count"])
        )
        for number in range(20)
    ]
    await asyncio.sleep(0.2)
    started = time.monotonic()
    reads[7].cancel()
    outcomes = await asyncio.gather(*reads, return_exceptions=True)
    assert time.monotonic() - started < 3
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


async def test_all_are_cancelled_while_no_connection_is_free(written, open_database, catalog):
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = [
            asyncio.ensure_future(narrow.fetch_value(catalog["notes.count"])) for _ in range(8)
        ]
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
        started = time.monotonic()
        with pytest.raises(PoolTimeoutError) as caught:
            await narrow.fetch_value(catalog["notes.count"])
        assert caught.value.size == caught.value.in_use == 1
        assert caught.value.waited == pytest.approx(0.4, abs=0.1)
        return time.monotonic() - started

    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        waits = await asyncio.gather(*(refused_after(0.07 * number) for number in range(8)))
    assert all(0.3 < wait < 0.7 for wait in waits), waits
    await assert_whole(narrow, None, catalog)


async def test_those_who_wait_are_told_that_the_database_is_closed(
    written, open_database, catalog, monkeypatch
):
    monkeypatch.setattr("deerstore.database.calls._SETTLE_SECONDS", 0.1)
    monkeypatch.setattr("deerstore.database.calls._GRACE", 0.1)
    narrow = await open_database(pool_size=1)
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        reads = [
            asyncio.ensure_future(narrow.fetch_value(catalog["notes.count"])) for _ in range(4)
        ]
        await asyncio.sleep(0.05)
        await narrow.aclose()
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
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


async def test_when_no_connection_can_be_made_each_is_told_so(
    written, open_database, catalog, monkeypatch
):
    narrow = await open_database(pool_size=2)

    async def refuse() -> None:
        raise ConnectionLostError("out of order")

    for pooled in list(narrow.pool._idle):
        pooled.terminate()
    monkeypatch.setattr(narrow.pool, "_connect", refuse)
    outcomes = await asyncio.gather(
        *(narrow.fetch_value(catalog["notes.count"]) for _ in range(6)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [ConnectionLostError] * 6
    assert len({id(outcome) for outcome in outcomes}) == 6
    monkeypatch.undo()
    await assert_whole(narrow, None, catalog)
