"""Few short reads of an SQLite file run at a time; long ones are in nobody's way, on any engine."""

from __future__ import annotations

import asyncio
import time

import pytest

from deerstore.database.turns import Turns
from deerstore.errors import DeerstoreError, PoolTimeoutError, QueryExecutionError
from tests.database.test_cancellation import assert_whole, cancelled_after


async def test_turns_come_in_the_order_of_asking():
    turns = Turns(2)
    order: list[int] = []
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        await turns.acquire()
        most = max(most, turns.running)
        order.append(number)
        await asyncio.sleep(0)
        turns.release()

    await asyncio.gather(*(call(number) for number in range(20)))
    assert order == list(range(20))
    assert (most, turns.running) == (2, 0)


async def test_a_newcomer_does_not_overtake_who_waits():
    turns = Turns(1)
    assert turns.take()
    waiting = asyncio.ensure_future(turns.acquire())
    await asyncio.sleep(0)
    turns.release()
    assert not turns.take()
    await waiting
    turns.release()
    assert turns.take()


async def test_who_is_cancelled_leaves_the_turn_to_the_next():
    turns = Turns(1)
    assert turns.take()
    first, second = (asyncio.ensure_future(turns.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    turns.release()
    # Its turn has come already, and it does not know it yet.
    first.cancel()
    await asyncio.wait({first, second}, timeout=1)
    assert first.cancelled()
    assert second.done()
    assert turns.running == 1
    third = asyncio.ensure_future(turns.acquire())
    await asyncio.sleep(0)
    third.cancel()
    await asyncio.wait({third})
    turns.release()
    assert turns.running == 0


async def test_who_is_destroyed_leaves_the_turn_to_the_next():
    turns = Turns(1)
    assert turns.take()
    first = turns.acquire()
    first.send(None)
    second = asyncio.ensure_future(turns.acquire())
    await asyncio.sleep(0)
    first.close()
    turns.release()
    await second
    turns.release()
    assert turns.running == 0


async def test_calls_that_do_not_end_make_room_for_others():
    turns = Turns(2)
    started = time.monotonic()
    for _ in range(8):
        await turns.acquire()
    assert turns.running == 8
    assert time.monotonic() - started < 0.5
    for _ in range(8):
        turns.release()
    for _ in range(1_000):
        assert turns.take()
        turns.release()
    # The room that was made is gone again.
    assert [turns.take() for _ in range(3)] == [True, True, False]


async def test_a_short_read_does_not_wait_for_long_ones(open_database, database, catalog, notes):
    wide = await open_database(pool_size=6)
    await asyncio.gather(*(wide.fetch_value(catalog["notes.count"]) for _ in range(6)))
    long = [
        asyncio.ensure_future(wide.fetch_value(catalog["slow.read"], seconds=20.0))
        for _ in range(4)
    ]
    await asyncio.sleep(0.2)
    started = time.monotonic()
    for _ in range(20):
        await wide.fetch_value(catalog["notes.count"])
    assert time.monotonic() - started < 1
    assert not any(each.done() for each in long)
    for each in long:
        each.cancel()
    await asyncio.wait(long)
    await assert_whole(wide, None, catalog)


async def test_failed_overdue_and_refused_reads_give_their_turns_back(
    open_database, database, catalog, notes
):
    narrow = await open_database(pool_size=1, command_timeout=0.3, acquire_timeout=0.2)
    for _ in range(3):
        with pytest.raises(QueryExecutionError):
            await narrow.fetch_value(catalog["slow.read"], seconds=20.0)
    assert await cancelled_after(0.05, narrow.fetch_value(catalog["slow.read"], seconds=20.0))
    async with narrow.session() as session:
        await session.fetch_value(catalog["notes.count"])
        results = await asyncio.gather(
            *(narrow.fetch_value(catalog["notes.count"]) for _ in range(5)),
            return_exceptions=True,
        )
        assert {type(each) for each in results} == {PoolTimeoutError}
    await assert_whole(narrow, None, catalog)


async def test_a_destroyed_read_gives_its_turn_back(database, catalog, notes):
    await database.fetch_value(catalog["slow.read"], seconds=0.0)
    call = database.fetch_value(catalog["slow.read"], seconds=1.0)
    call.send(None)
    call.close()
    await asyncio.sleep(0.05)
    await assert_whole(database, None, catalog)


async def test_a_call_from_another_event_loop_is_refused_though_turns_are_taken(
    open_database, database, catalog, notes, monkeypatch
):
    # Nobody is let in because the others take long.
    monkeypatch.setattr("deerstore.database.turns._STALL", 60)
    wide = await open_database(pool_size=4)
    long = [
        asyncio.ensure_future(wide.fetch_value(catalog["slow.read"], seconds=20.0))
        for _ in range(3)
    ]
    await asyncio.sleep(0.2)

    def count():
        return (yield catalog["notes.count"], {})

    def elsewhere(call) -> None:
        asyncio.run(asyncio.wait_for(call(), 5))

    for call in (
        lambda: wide.fetch_value(catalog["notes.count"]),
        lambda: wide.unit(count, writes=False),
    ):
        with pytest.raises(DeerstoreError, match="event loop"):
            await asyncio.to_thread(elsewhere, call)
    for each in long:
        each.cancel()
    await asyncio.wait(long)
    await assert_whole(wide, None, catalog)
