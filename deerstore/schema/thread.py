"""One daemon thread for blocking calls.

The schema's connections block. The event loop's own executor would be the obvious place for them,
but the interpreter waits for its threads at exit: a `setup()` that hangs on a dead server would
keep the process alive. A daemon thread does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["SchemaThread"]

T = TypeVar("T")

_END_WAIT = 5.0


class SchemaThread:
    """Runs blocking calls one after another, always on the same thread.

    ``stop`` is called, on a thread of its own, when a caller is cancelled: it makes the call in
    progress return soon. The cancelled caller waits up to five seconds for that.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.hangs = False
        """A call did not return when it was stopped: whatever is asked next would wait for it."""
        self._thread = threading.Thread(target=self._work, name="deerstore-schema", daemon=True)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.hangs:
            self._jobs.put(None)
        else:
            await self.run(self._jobs.put, None)

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        """Call ``call(*args)`` on the thread and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def job() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = call(*args)
            except BaseException as raised:  # noqa: BLE001 - it is raised again by the caller
                error = raised
            # The loop may have been closed while the call hung.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, error)

        self._jobs.put(job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            threading.Thread(target=self._stop, name="deerstore-schema-stop", daemon=True).start()
            await self._see_it_end(future)
            self.hangs = not future.done()
            raise

    @staticmethod
    async def _see_it_end(future: asyncio.Future[Any]) -> None:
        """Wait for the stopped call, also when the caller is cancelled once more: until then the
        connection is not free, and the wish to stop must not be taken back.
        """
        # Nobody asks for what comes of it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _END_WAIT
        while not future.done() and (left := deadline - loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future], timeout=left)
