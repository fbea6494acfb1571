"""From a session factory to what executes a store's calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from deerstore.database import Database, Session

__all__ = ["Bound", "SessionFactory", "database_of"]

T = TypeVar("T")

SessionFactory = Callable[[], Session]
"""What stores are built from: ``AppPersistence.session_factory``, or any callable that gives its
sessions."""


def database_of(session_factory: SessionFactory) -> Database:
    """The database behind a session factory.

    A call of a store is one unit, so it goes to the database itself: one round trip where one
    statement is enough, and another try after a deadlock. A session that was not used yet has
    taken no connection, so making one to ask it costs nothing.
    """
    database = getattr(session_factory, "database", None)
    if database is None and callable(session_factory):
        database = getattr(session_factory(), "database", None)
    if not isinstance(database, Database):
        raise TypeError(
            "session_factory must be AppPersistence.session_factory, or a callable that returns "
            f"its sessions, not {type(session_factory).__name__}"
        )
    return database


class Bound(Generic[T]):
    """A repository that is only given out on the event loop that asked for it first.

    Its connections live on that loop. Used from another one they would hang or break, on one
    engine sooner than on the other, so it is refused at once.
    """

    __slots__ = ("_loop", "_repository")

    def __init__(self, repository: T) -> None:
        self._repository = repository
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> T:
        """The repository.

        Raises:
            RuntimeError: it belongs to another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise RuntimeError(
                    "a store belongs to the event loop that first used it; on another event loop "
                    "open a bundle of its own"
                )
            self._loop = loop
        return self._repository
