"""From a session factory to what executes a store's calls."""

from __future__ import annotations

from collections.abc import Callable

from deerstore.database import Database, Session

__all__ = ["SessionFactory", "database_of"]

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
