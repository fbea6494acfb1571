"""One pool for all three engines: fair to those who wait, free for those who need not.

Waiting is first come, first served; idle connections are reused last in, first out, so that few
of them stay warm. Nothing is sent when a connection is taken or given back: one that lay idle for
longer than ``check_after`` seconds is checked before it is used again, a broken one is replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from deerstore.errors import ConnectionLostError, DeerstoreError, PoolTimeoutError

__all__ = ["Pool", "PooledConnection"]

_log = logging.getLogger("deerstore.database")

_CHECK_SECONDS = 5.0
"""How long an idle connection may take to answer before it counts as dead."""

_LINGER_SECONDS = 1.0
"""How long a connection may still be in the making when its caller is gone."""


class PooledConnection(Protocol):
    """What the pool needs to know about a connection."""

    idle_since: float
    """Loop time at which the connection was given back; kept by the pool."""

    @property
    def closed(self) -> bool:
        """Whether the connection is known to be unusable. No I/O."""

    async def check(self) -> None:
        """Ask the server for an answer; any exception means that the connection is dead."""

    async def close(self) -> None:
        """Say goodbye and close."""

    def terminate(self) -> None:
        """Close at once, without waiting for anything."""


C = TypeVar("C", bound=PooledConnection)


class Pool(Generic[C]):
    """At most ``size`` connections, made when they are first needed.

    ``acquire_timeout`` bounds the wait for a free connection, and as much again the making of a
    new one, in seconds. The pool belongs to the event loop it is first used in.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[C]],
        *,
        size: int,
        acquire_timeout: float,
        check_after: float,
    ) -> None:
        self._connect = connect
        self._size = size
        self.acquire_timeout = acquire_timeout
        self._check_after = check_after
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[C] = []
        self._lent: set[C] = set()
        self._opening = 0
        self._waiters: deque[tuple[asyncio.Future[C | None], float]] = deque()
        """Each with the loop time of its coming."""
        self._timer: asyncio.TimerHandle | None = None
        self._suspect_before = float("-inf")
        self._closed = False
        self._drained: asyncio.Event | None = None

    # -- taking and giving back ------------------------------------------------------------------

    def take(self) -> C | None:
        """An idle connection that needs no check, or None: then :meth:`acquire` has to wait."""
        loop = asyncio.get_running_loop()
        if not self._idle or self._waiters or self._loop is not loop:
            return None
        connection = self._idle[-1]
        since = connection.idle_since
        # As _is_stale says, without a call: every statement comes by here.
        if (
            connection.closed
            or since <= self._suspect_before
            or loop.time() - since > self._check_after
        ):
            return None
        self._idle.pop()
        self._lent.add(connection)
        return connection

    async def acquire(self) -> C:
        """A connection that answers, as soon as one is free.

        Raises:
            PoolTimeoutError: none became free within ``acquire_timeout``.
            ConnectionLostError: a new one could not be made within ``acquire_timeout``.
        """
        connection = self.take()
        if connection is not None:
            return connection
        self.check_usable()
        connection = await self._wait_for_place()
        if connection is not None and (connection.closed or self._is_stale(connection)):
            try:
                connection = await self._checked(connection)
            except BaseException:
                self._opening -= 1
                self._offer(None)
                raise
        if connection is None:
            connection = await self._opened()
        self._opening -= 1
        self._lent.add(connection)
        return connection

    def release(self, connection: C) -> None:
        """Give a connection back. A closed one makes room for a new one."""
        self._lent.discard(connection)
        if self._closed or connection.closed:
            connection.terminate()
            self._offer(None)
        else:
            assert self._loop is not None
            connection.idle_since = self._loop.time()
            if self._waiters or self._drained is not None:
                self._offer(connection)
            else:
                self._idle.append(connection)

    def discard(self, connection: C) -> None:
        """Close a connection instead of giving it back."""
        self._lent.discard(connection)
        connection.terminate()
        self._offer(None)

    def abandon(self, connection: C, *also: Callable[[], None]) -> bool:
        """Discard a connection whose user is gone. May be called from any thread.

        What is to be done ``also`` is done on the event loop, as this is. False when that is
        closed, and everything that belonged to it is lost.
        """
        if self._loop is None or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(self.discard, connection)
        for act in also:
            self._loop.call_soon_threadsafe(act)
        return True

    def suspect(self) -> None:
        """A connection was lost: check every idle one before it is used again."""
        self._suspect_before = self._now()

    # -- figures ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The most connections there may be."""
        return self._size

    @property
    def in_use(self) -> int:
        """Connections that are lent or being made."""
        return len(self._lent) + self._opening

    @property
    def idle(self) -> int:
        """Connections that wait for work."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """Callers that wait for a connection."""
        return sum(1 for waiter, _ in self._waiters if not waiter.done())

    # -- closing ---------------------------------------------------------------------------------

    async def aclose(self, grace: float) -> None:
        """Refuse new work, let what is lent come back for ``grace`` seconds, close everything."""
        self._closed = True
        while self._waiters:
            waiter, _ = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(DeerstoreError("the database is closed"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.in_use:
            # Whoever closes it at the same time waits for the same.
            self._drained = self._drained or asyncio.Event()
            try:
                await asyncio.wait_for(self._drained.wait(), grace)
            except TimeoutError:
                _log.warning("closing %d connections that are still in use", len(self._lent))
                for connection in list(self._lent):
                    connection.terminate()
        idle, self._idle = self._idle, []
        failed: Exception | None = None
        for connection in idle:
            try:
                await asyncio.wait_for(connection.close(), _CHECK_SECONDS)
            except Exception as error:  # noqa: BLE001 - the others have to be closed as well
                connection.terminate()
                failed = failed or error
        if failed is not None and not isinstance(failed, TimeoutError | OSError):
            raise failed

    # -- inside ----------------------------------------------------------------------------------

    def _now(self) -> float:
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return loop.time()

    def _is_stale(self, connection: C) -> bool:
        since = connection.idle_since
        return since <= self._suspect_before or self._now() - since > self._check_after

    def check_usable(self) -> None:
        """Raise DeerstoreError when the pool is closed, or belongs to another event loop."""
        if self._closed:
            raise DeerstoreError("the database is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise DeerstoreError(
                "a database belongs to the event loop that first used it; "
                "open one of its own in each event loop"
            )

    async def _wait_for_place(self) -> C | None:
        """An idle connection to be checked, or None: the permission to make a new one."""
        if not self._waiters:
            if self._idle:
                self._opening += 1
                return self._idle.pop()
            if self.in_use < self._size:
                self._opening += 1
                return None
        assert self._loop is not None
        waiter: asyncio.Future[C | None] = self._loop.create_future()
        place = (waiter, self._loop.time())
        self._waiters.append(place)
        if self._timer is None:
            self._timer = self._loop.call_later(self.acquire_timeout, self._expire)
        try:
            return await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # The place came at the same moment as the cancellation: pass it on.
                self._opening -= 1
                self._offer(waiter.result())
            elif isinstance(error, GeneratorExit):
                with suppress(ValueError):
                    self._waiters.remove(place)
            raise

    def _expire(self) -> None:
        """Turn away who has waited too long. One timer does for all: they came in this order."""
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._waiters:
            waiter, since = self._waiters[0]
            if not waiter.done():
                if now < since + self.acquire_timeout:
                    self._timer = self._loop.call_at(since + self.acquire_timeout, self._expire)
                    return
                waiter.set_exception(self.too_late(now - since))
            self._waiters.popleft()

    def too_late(self, waited: float) -> PoolTimeoutError:
        """What a caller is told that waited for ``waited`` seconds in vain."""
        return PoolTimeoutError(
            f"no connection became free within {waited:.1f} s (pool_size={self._size}, "
            f"in use: {self.in_use}, also waiting: {max(0, self.waiting - 1)})",
            waited=waited,
            size=self._size,
            in_use=self.in_use,
        )

    def _offer(self, connection: C | None) -> None:
        """Hand a connection, or the place of a closed one, to whoever has waited longest."""
        while self._waiters:
            waiter, _ = self._waiters.popleft()
            if not waiter.done():
                self._opening += 1
                waiter.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)
        if self._drained is not None and not self.in_use:
            self._drained.set()

    async def _checked(self, connection: C) -> C | None:
        if connection.closed:
            connection.terminate()
            return None
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await connection.check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection is not usable
            _log.info("an idle connection is replaced: %s", type(error).__name__)
            connection.terminate()
            return None
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _opened(self) -> C:
        """A new connection, made beside the caller: drivers do not like to be cancelled at that.

        When the caller is cancelled it has a moment more, and serves the next one.
        """
        opening = asyncio.ensure_future(self._open())
        try:
            await asyncio.wait({opening})
            return opening.result()
        except BaseException:
            if opening.done():
                self._take_in(opening)
            else:
                opening.add_done_callback(self._take_in)
                opening.get_loop().call_later(_LINGER_SECONDS, opening.cancel)
            raise

    def _take_in(self, opening: asyncio.Future[C]) -> None:
        """What became of a connection whose caller is gone."""
        self._opening -= 1
        if opening.cancelled() or opening.exception() is not None:
            self._offer(None)
        else:
            self.release(opening.result())

    async def _open(self) -> C:
        try:
            async with asyncio.timeout(self.acquire_timeout):
                return await self._connect()
        except TimeoutError as error:
            raise ConnectionLostError(
                f"no connection could be made within {self.acquire_timeout:g} s"
            ) from error
