"""A session's stream between two portions, and the end of one whose loop was left early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["StreamInUse"]

_TURNS = 3
"""Turns of the event loop until it has begun to close a generator that nobody holds any more."""


class StreamInUse:
    """The stream that is using a session, if there is one.

    A loop that is left with ``break`` drops its stream without closing it: the event loop does
    that, a moment later. Until then the session looks as if another coroutine were using it.
    """

    __slots__ = ("_at_its_reader", "_left")

    def __init__(self) -> None:
        self._at_its_reader = False
        self._left: asyncio.Future[None] | None = None

    @contextmanager
    def at_its_reader(self) -> Iterator[None]:
        """A portion is with the reader, who may never come back."""
        self._at_its_reader = True
        try:
            yield
        except GeneratorExit:
            self._left = asyncio.get_running_loop().create_future()
            raise
        finally:
            self._at_its_reader = False

    def ended(self) -> None:
        """The session is free again."""
        if self._left is not None:
            self._left.set_result(None)
            self._left = None

    async def settled(self) -> None:
        """Wait for the end of a stream that was left; one that is still read is not waited for."""
        for _ in range(_TURNS):
            if not self._at_its_reader:
                break
            await asyncio.sleep(0)
        if self._left is not None:
            await asyncio.shield(self._left)
