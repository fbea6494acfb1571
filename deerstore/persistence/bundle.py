"""The bundle: one database, and everything that a gateway keeps in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from deerstore.database import Database, Session
    from deerstore.persistence.checkpointer import PortableSaver
    from deerstore.persistence.recovery import RecoveryReport
    from deerstore.persistence.store import PortableStore
    from deerstore.schema import SetupReport

__all__ = ["AppPersistence", "LangGraphParts", "SessionFactory"]

_GRACE = 10.0
"""Seconds that closing leaves to work in flight, per part."""


class LangGraphParts(Protocol):
    """The checkpointer and the Store of one engine."""

    @property
    def checkpointer(self) -> PortableSaver:
        """LangGraph's saver."""

    @property
    def store(self) -> PortableStore:
        """LangGraph's Store."""

    async def setup(self) -> None:
        """Make LangGraph's tables."""

    async def aclose(self, grace: float) -> None:
        """Close connections that are not the facade's."""


class SessionFactory:
    """Makes sessions: ``async with factory() as session``. ``database`` is where they live."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __call__(self) -> Session:
        """A session that owns one connection; leaving it without ``commit()`` rolls back."""
        return self.database.session()


class AppPersistence:
    """Everything a gateway keeps, in one database.

    Made by :func:`deerstore.open` or one of the ``create_persistence`` functions.

    Attributes:
        checkpointer: LangGraph's saver of the engine (``AsyncSqliteSaver``, ``AsyncPostgresSaver``
            or ``AIOMySQLSaver``), for ``graph.compile(checkpointer=…)``.
        store: LangGraph's Store of the engine, for ``graph.compile(store=…)``.
        database: the facade for single statements, each on a connection of its own.
        session_factory: makes sessions, which own a connection and commit when they are told.
    """

    def __init__(self, database: Database, parts: LangGraphParts) -> None:
        self.database = database
        self.session_factory = SessionFactory(database)
        self.checkpointer = parts.checkpointer
        self.store = parts.store
        self._parts = parts
        self._closing: asyncio.Task[None] | None = None

    async def setup(self, *, progress: Callable[[str], None] | None = None) -> SetupReport:
        """Make and upgrade every table, LangGraph's included.

        May run in many processes at once, and again at any time. ``progress`` is called with one
        line before each step, on another thread.

        Raises:
            SchemaError: a step failed; the message names it.
            SchemaTooNewError: the database was made by a newer release; nothing was written.
        """
        from deerstore.schema import setup_schema

        return await setup_schema(
            self.database.config,
            langgraph_setup=self._parts.setup,
            progress=progress or (lambda _: None),
        )

    def transaction(self) -> Session:
        """A session that commits when its block ends, and rolls back when an exception ends it."""
        return self.database.transaction()

    async def purge_thread(
        self, thread_id: str, *, user_id: str | None = None, include_store: bool = False
    ) -> dict[str, int]:
        """Remove a thread from all surfaces, and say how many rows of each.

        With ``user_id`` only a thread of that user; with ``include_store`` also the Store items in
        the namespaces that begin with the thread's id. Called again after a crash, it finishes.
        See :func:`deerstore.persistence.purge.purge_thread`.
        """
        from deerstore.persistence.purge import purge_thread

        return await purge_thread(
            self.database, thread_id, user_id=user_id, include_store=include_store
        )

    async def recovery_report(self) -> RecoveryReport:
        """What a restart brings back, per surface, from the live database."""
        from deerstore.persistence.recovery import recovery_report

        return await recovery_report(self.database)

    async def aclose(self) -> None:
        """Let work in flight finish for a bounded time, then close the Store, the checkpointer
        and the database.

        Each part is closed even when an earlier one fails; the first error is raised. May be
        called twice: the second call waits for the first.
        """
        if self._closing is None:
            # A task of its own: a cancelled caller leaves nothing half closed.
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        first: Exception | None = None
        parts: list[Callable[[], Awaitable[None]]] = [
            lambda: self.store.finish(_GRACE),
            lambda: self.checkpointer.finish(_GRACE),
            lambda: self._parts.aclose(_GRACE),
            self.database.aclose,
        ]
        for close in parts:
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - the other parts have to be closed as well
                first = first or error
        if first is not None:
            raise first

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
