"""The calls in flight, which closing waits for."""

from __future__ import annotations

import asyncio

from deerstore.errors import DeerstoreError

__all__ = ["Calls"]


class Calls:
    """The calls in flight of a checkpointer and of its copies, or of a Store (``owner``)."""

    def __init__(self, owner: str = "checkpointer") -> None:
        self._owner = owner
        self._running = 0
        self._ended: asyncio.Future[None] | None = None
        """Set once the owner is closed; done when its last call has ended."""

    def begin(self) -> None:
        """Count a call. Refuses it when the owner is closed."""
        if self._ended is not None:
            raise DeerstoreError(f"the {self._owner} is closed")
        self._running += 1

    def end(self) -> None:
        """The call has ended, in whatever way."""
        self._running -= 1
        if not self._running and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def finish(self, grace: float) -> None:
        """Let no more calls begin, and wait for the last to end."""
        if self._ended is not None:
            return
        self._ended = asyncio.get_running_loop().create_future()
        if self._running:
            await asyncio.wait({self._ended}, timeout=grace)
