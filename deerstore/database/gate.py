"""The queue of writers in front of one SQLite file.

SQLite lets one transaction write at a time and lets the others poll. Writers of one process queue
here instead, first come, first served, whichever bundle, event loop or thread they belong to; only
between processes is the file's own lock contended.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from weakref import WeakValueDictionary

__all__ = ["WriterGate", "gate_of"]


class _Waiter:
    __slots__ = ("future", "granted", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.granted = False

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class WriterGate:
    """A first-come-first-served lock that may be shared by event loops in several threads.

    Who holds it when its event loop is closed can never give it back: it is taken away then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: asyncio.AbstractEventLoop | None = None
        self._waiters: deque[_Waiter] = deque()

    def take(self) -> bool:
        """Take the gate if nobody has it and nobody waits."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._holder is None and not self._waiters:
                self._holder = loop
                return True
            return self._take(loop)

    async def acquire(self, seconds: float) -> None:
        """Wait for the gate. Raises TimeoutError after ``seconds``."""
        waiter = _Waiter()
        with self._lock:
            if self._take(waiter.loop):
                return
            self._waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter.future
        except BaseException:
            with self._lock:
                if waiter.granted:
                    self._pass_on()
                else:
                    self._waiters.remove(waiter)
            raise

    def release(self) -> None:
        """Let the next writer in. May be called from any thread, while the event loop of the
        holder is open.
        """
        with self._lock:
            if self._waiters:
                self._pass_on()
            else:
                self._holder = None

    def _take(self, loop: asyncio.AbstractEventLoop) -> bool:
        if self._holder is not None and self._holder.is_closed():
            self._pass_on()
        if self._holder is not None or self._waiters:
            return False
        self._holder = loop
        return True

    def _pass_on(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.granted = True
            try:
                if waiter.loop is _running_loop():
                    waiter.wake()
                else:
                    waiter.loop.call_soon_threadsafe(waiter.wake)
            except RuntimeError:
                # Its event loop was closed while it waited: the next one, then.
                continue
            self._holder = waiter.loop
            return
        self._holder = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_gates: WeakValueDictionary[str, WriterGate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def gate_of(path: str) -> WriterGate:
    """The gate of a database file, the same for everyone in this process."""
    key = os.path.realpath(path)
    with _gates_lock:
        gate = _gates.get(key)
        if gate is None:
            gate = _gates[key] = WriterGate()
        return gate
