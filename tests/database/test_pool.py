"""The pool by itself, over connections that are made up."""

from __future__ import annotations

import asyncio

import pytest

from deerstore.database.pool import Pool
from deerstore.errors import ConnectionLostError, DeerstoreError, PoolTimeoutError


class Connection:
    def __init__(self, number: int) -> None:
        self.number = number
        self.idle_since = 0.0
        self.closed = False
        self.checks = 0
        self.dead = False

    async def check(self) -> None:
        self.checks += 1
        await asyncio.sleep(0)
        if self.dead:
            raise OSError

    async def close(self) -> None:
        self.closed = True

    def terminate(self) -> None:
        self.closed = True


class Maker:
    def __init__(self) -> None:
        self.made: list[Connection] = []
        self.failures = 0
        self.delay = 0.0
        self.cancelled = 0

    async def __call__(self) -> Connection:
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failures:
            self.failures -= 1
            raise ConnectionLostError("refused")
        connection = Connection(len(self.made))
        self.made.append(connection)
        return connection


@pytest.fixture
def maker() -> Maker:
    return Maker()


def pool_of(maker: Maker, size: int, timeout: float = 5.0, check_after: float = 30.0) -> Pool:
    return Pool(maker, size=size, acquire_timeout=timeout, check_after=check_after)


async def test_connections_are_made_when_they_are_needed_and_no_more_than_the_size(maker):
    pool = pool_of(maker, 2)
    one, two = await pool.acquire(), await pool.acquire()
    assert (one.number, two.number, pool.in_use, pool.idle) == (0, 1, 2, 0)
    waiting = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert pool.waiting == 1
    pool.release(one)
    assert await waiting is one
    assert len(maker.made) == 2


async def test_who_waits_longest_is_served_first_also_before_a_newcomer(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    served: list[int] = []

    async def customer(number: int) -> None:
        mine = await pool.acquire()
        served.append(number)
        await asyncio.sleep(0)
        pool.release(mine)

    tasks = [asyncio.ensure_future(customer(number)) for number in range(10)]
    await asyncio.sleep(0.01)
    pool.release(connection)
    tasks.append(asyncio.ensure_future(customer(10)))
    assert pool.take() is None
    await asyncio.gather(*tasks)
    assert served == list(range(11))


async def test_the_connection_used_last_is_reused_first(maker):
    pool = pool_of(maker, 3)
    lent = [await pool.acquire() for _ in range(3)]
    for connection in lent:
        pool.release(connection)
    assert pool.take() is lent[2]
    assert pool.take() is lent[1]


async def test_waiting_too_long_says_how_long_how_large_and_what_is_in_use(maker):
    pool = pool_of(maker, 1, timeout=0.05)
    await pool.acquire()
    with pytest.raises(PoolTimeoutError, match=r"pool_size=1, in use: 1") as caught:
        await pool.acquire()
    assert caught.value.waited >= 0.05
    assert (caught.value.size, caught.value.in_use) == (1, 1)
    assert pool.waiting == 0


async def test_a_cancelled_waiter_leaves_no_hole(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    first, second = (asyncio.ensure_future(pool.acquire()) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    pool.release(connection)
    assert await second is connection
    pool.release(connection)
    assert (pool.in_use, pool.idle) == (0, 1)


async def test_a_connection_given_to_a_waiter_that_is_cancelled_meanwhile_goes_on(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    first, second = (asyncio.ensure_future(pool.acquire()) for _ in range(2))
    await asyncio.sleep(0.01)
    # The place is promised, and then its owner is cancelled before it can take it.
    pool.release(connection)
    first.cancel()
    assert await second is connection
    with pytest.raises(asyncio.CancelledError):
        await first
    pool.release(connection)
    assert (pool.in_use, pool.idle, pool.waiting) == (0, 1, 0)


async def test_a_broken_connection_makes_room_for_a_new_one(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    waiting = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0.01)
    connection.closed = True
    pool.release(connection)
    replacement = await waiting
    assert replacement is not connection
    pool.discard(replacement)
    assert replacement.closed
    assert (pool.in_use, pool.idle) == (0, 0)


async def test_a_connection_found_closed_is_replaced(maker):
    pool = pool_of(maker, 2)
    connection = await pool.acquire()
    pool.release(connection)
    connection.closed = True
    assert pool.take() is None
    assert (await pool.acquire()).number == 1


async def test_only_connections_that_lay_idle_long_are_checked(maker):
    pool = pool_of(maker, 1, check_after=0.03)
    connection = await pool.acquire()
    pool.release(connection)
    assert await pool.acquire() is connection
    assert connection.checks == 0
    pool.release(connection)
    await asyncio.sleep(0.05)
    assert pool.take() is None
    assert await pool.acquire() is connection
    assert connection.checks == 1
    pool.release(connection)
    connection.dead = True
    await asyncio.sleep(0.05)
    assert (await pool.acquire()).number == 1
    assert connection.closed


async def test_after_a_loss_every_idle_connection_is_checked(maker):
    pool = pool_of(maker, 2)
    one, two = await pool.acquire(), await pool.acquire()
    pool.release(one)
    one.dead = True
    pool.discard(two)
    pool.suspect()
    assert (await pool.acquire()).number == 2
    assert one.closed


async def test_a_failure_to_connect_lets_the_next_one_try(maker):
    pool = pool_of(maker, 1)
    maker.failures, maker.delay = 1, 0.01
    outcomes = await asyncio.gather(pool.acquire(), pool.acquire(), return_exceptions=True)
    assert isinstance(outcomes[0], ConnectionLostError)
    assert outcomes[1] is maker.made[0]
    assert pool.in_use == 1


async def cancelled_while_it_connects(pool: Pool) -> None:
    task = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_connection_whose_caller_is_cancelled_serves_the_next_one(maker):
    pool = pool_of(maker, 1)
    maker.delay = 0.05
    await cancelled_while_it_connects(pool)
    assert (pool.in_use, maker.cancelled) == (1, 0)
    assert (await pool.acquire()).number == 0
    assert (len(maker.made), pool.in_use, pool.idle) == (1, 1, 0)


async def test_a_connection_that_fails_without_its_caller_makes_room(maker):
    pool = pool_of(maker, 1)
    maker.delay, maker.failures = 0.05, 1
    await cancelled_while_it_connects(pool)
    assert (await pool.acquire()).number == 0
    pool.release(maker.made[0])
    assert (pool.in_use, pool.idle) == (0, 1)


async def test_a_connection_that_does_not_come_gives_its_place_back(maker, monkeypatch):
    monkeypatch.setattr("deerstore.database.pool._LINGER_SECONDS", 0.05)
    pool = pool_of(maker, 1)
    maker.delay = 10
    await cancelled_while_it_connects(pool)
    maker.delay = 0
    assert (await pool.acquire()).number == 0
    assert maker.cancelled == 1


async def test_a_connection_that_comes_after_the_end_is_closed(maker):
    pool = pool_of(maker, 2)
    maker.delay = 0.05
    await cancelled_while_it_connects(pool)
    await pool.aclose(5)
    assert [connection.closed for connection in maker.made] == [True]
    await pool.aclose(0.01)
    assert (pool.in_use, pool.idle) == (0, 0)


async def test_connecting_takes_no_longer_than_waiting_may(maker):
    pool = pool_of(maker, 1, timeout=0.05)
    maker.delay = 10
    with pytest.raises(ConnectionLostError):
        await pool.acquire()
    assert pool.in_use == 0


async def test_closing_lets_work_finish_and_refuses_new_work(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    waiting = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(pool.aclose(5))
    await asyncio.sleep(0.01)
    with pytest.raises(DeerstoreError, match="closed"):
        await waiting
    with pytest.raises(DeerstoreError, match="closed"):
        await pool.acquire()
    assert not closing.done()
    pool.release(connection)
    await closing
    assert connection.closed
    await pool.aclose(5)


async def test_closing_waits_only_for_so_long(maker):
    pool = pool_of(maker, 1)
    connection = await pool.acquire()
    await pool.aclose(0.02)
    assert connection.closed
    pool.release(connection)
    assert pool.in_use == 0


def test_another_event_loop_is_told_that_the_pool_is_not_its_own(maker):
    pool = pool_of(maker, 1)

    async def use() -> None:
        pool.release(await pool.acquire())

    asyncio.run(use())
    with pytest.raises(DeerstoreError, match="event loop"):
        asyncio.run(use())


async def test_a_crowd_that_comes_and_goes_leaves_the_pool_whole(maker):
    import random

    chance = random.Random(7)
    pool = pool_of(maker, 3, timeout=0.2)

    async def customer() -> None:
        try:
            async with asyncio.timeout(chance.uniform(0, 0.02)):
                connection = await pool.acquire()
        except (TimeoutError, PoolTimeoutError):
            return
        try:
            await asyncio.sleep(chance.uniform(0, 0.005))
        finally:
            if chance.random() < 0.2:
                pool.discard(connection)
            else:
                pool.release(connection)

    await asyncio.gather(*(customer() for _ in range(500)))
    assert (pool.in_use, pool.waiting) == (0, 0)
    assert 0 < pool.idle <= 3
