"""Turns: how many short reads of one SQLite file run at a time.

Each SQLite connection has a thread, and the threads of one process share the interpreter's lock,
which SQLite lets go of and takes again with each row. Threads that all read a page hand the lock
to and fro and get less done than one. A read that takes long is another matter: SQLite works on
it without the lock, and nobody should wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

__all__ = ["Turns"]

_STALL = 0.005
"""Seconds without the end of any read after which those that run are taken for long ones."""
_FORGOTTEN = 64
"""Reads after which one of the turns that were added for long ones is taken away again."""


class Turns:
    """Lets ``width`` calls run at a time, first come, first served; more when they are long."""

    __slots__ = ("_allowed", "_ended", "_running", "_seen", "_timer", "_waiters", "_width")

    def __init__(self, width: int) -> None:
        self._width = self._allowed = width
        self._running = 0
        self._ended = self._seen = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """Calls that have a turn."""
        return self._running

    def take(self) -> bool:
        """Take a turn if there is one and nobody waits for it."""
        if self._running >= self._allowed or self._waiters:
            return False
        self._running += 1
        return True

    async def acquire(self) -> None:
        """Wait for a turn."""
        if self.take():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if self._timer is None:
            self._watch(loop)
        try:
            await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self.release()
            elif isinstance(error, GeneratorExit):
                with suppress(ValueError):
                    self._waiters.remove(waiter)
            raise

    def release(self) -> None:
        """Give a turn back."""
        self._running -= 1
        self._ended += 1
        if self._allowed > self._width and self._ended % _FORGOTTEN == 0:
            self._allowed -= 1
        if self._waiters:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiters and self._running < self._allowed:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._running += 1
                waiter.set_result(None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._seen = self._ended
        self._timer = loop.call_later(_STALL, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._waiters:
            return
        if self._ended == self._seen:
            self._allowed = self._running + self._width
            self._let_in()
        self._watch(loop)
