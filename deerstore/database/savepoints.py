"""The savepoints of a session, from the outermost to the innermost."""

from __future__ import annotations

__all__ = ["Savepoint", "Savepoints"]


class Savepoint:
    """A savepoint; set when something is first written after it."""

    __slots__ = ("is_set", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_set = False


class Savepoints:
    """Which savepoints there are, and which of them the database knows."""

    def __init__(self) -> None:
        self._open: list[Savepoint] = []
        self._named = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    def push(self) -> Savepoint:
        """A new innermost savepoint."""
        self._named += 1
        savepoint = Savepoint(f"deerstore_{self._named}")
        self._open.append(savepoint)
        return savepoint

    def drop(self, savepoint: Savepoint) -> None:
        """It has ended, and with it whatever was set after it."""
        if savepoint in self._open:
            del self._open[self._open.index(savepoint) :]

    def pending(self) -> tuple[str, ...]:
        """Names of those that a write has to set first."""
        return tuple([savepoint.name for savepoint in self._open if not savepoint.is_set])

    def mark(self, *, is_set: bool) -> None:
        """A write has set all of them, or the end of the transaction has undone all of them."""
        for savepoint in self._open:
            savepoint.is_set = is_set
