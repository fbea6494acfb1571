"""LangGraph on SQLite: each call is one trip to a thread, one transaction, and one unit.

LangGraph's asynchronous saver travels to its thread for every statement and commits in a trip of
its own, so that a cancelled call leaves a transaction open and the file locked. Its synchronous
twin does the same work in one go; here it runs on a connection of the facade, where it waits for
the file like everything else.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.sqlite.aio import AsyncSqliteStore

from deerstore.database.sqlite import SQLiteConnection
from deerstore.persistence.calls import Calls
from deerstore.persistence.checkpointer import PortableSaver, PortableSerializer
from deerstore.persistence.store import PortableStore
from deerstore.schema.langgraph import Ledger, run_migrations

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    from deerstore.database import Database
    from deerstore.database.engine import Connection

__all__ = ["SqliteCheckpointer", "SqliteLangGraph", "SqliteStore"]

T = TypeVar("T")


class _ThreadSaver(SqliteSaver):
    """LangGraph's synchronous saver inside a transaction that somebody else begins and ends."""

    def setup(self) -> None:
        """The tables are there: ``persistence.setup()`` has made them."""

    def make_tables(self) -> None:
        """LangGraph's own setup."""
        super().setup()

    @contextlib.contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:  # noqa: ARG002
        with contextlib.closing(self.conn.cursor()) as cursor:
            yield cursor


class _OneTripSaver(AsyncSqliteSaver):
    """LangGraph's saver, each of its calls one trip."""

    _database: Database

    async def setup(self) -> None:
        """LangGraph's tables. ``persistence.setup()`` does it under the lock of all setups."""
        await _on_connection(self._database, _make_tables)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._run(lambda saver: saver.get_tuple(config), writes=False)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = await self._run(
            lambda saver: list(saver.list(config, filter=filter, before=before, limit=limit)),
            writes=False,
        )
        for each in found:
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._run(
            lambda saver: saver.put(config, checkpoint, metadata, new_versions), writes=True
        )

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._run(
            lambda saver: saver.put_writes(config, writes, task_id, task_path), writes=True
        )

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run(lambda saver: saver.delete_thread(thread_id), writes=True)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._run(
            lambda saver: saver.get_delta_channel_history(config=config, channels=channels),
            writes=False,
        )

    async def _run(self, call: Callable[[_ThreadSaver], T], *, writes: bool) -> T:
        def work(raw: sqlite3.Connection) -> T:
            return call(_ThreadSaver(raw, serde=self.serde))

        def apply(connection: Connection) -> Awaitable[T]:
            sqlite = cast("SQLiteConnection", connection)
            return sqlite.apply(work, begin="write" if writes else "read")

        return await self._database.on_connection(apply, writes=writes)


class SqliteCheckpointer(PortableSaver, _OneTripSaver):
    """The checkpointer on SQLite: an ``AsyncSqliteSaver`` over the facade's connections."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # The facade lends a connection to each call.
        super().__init__(cast("Any", None), serde=PortableSerializer())
        self._calls = Calls()
        self.is_setup = True


class SqliteStore(PortableStore, AsyncSqliteStore):
    """The Store on SQLite: an ``AsyncSqliteStore`` over the facade."""

    def __init__(self, database: Database) -> None:
        self._database = database
        super().__init__(cast("Any", None))
        self._calls = Calls("store")
        self.is_setup = True

    async def setup(self) -> None:
        """LangGraph's table. ``persistence.setup()`` does it under the lock of all setups."""

        async def execute(sql: str, args: Sequence[Any] | None) -> Sequence[Sequence[Any]]:
            return await _on_connection(
                self._database, lambda raw: raw.execute(sql, args or ()).fetchall()
            )

        ledger = Ledger("store", AsyncSqliteStore.MIGRATIONS)
        await run_migrations("sqlite", execute, ledger, _is_done_already)


class SqliteLangGraph:
    """The checkpointer and the Store of a bundle on SQLite."""

    def __init__(self, database: Database) -> None:
        self.checkpointer = SqliteCheckpointer(database)
        self.store = SqliteStore(database)

    async def setup(self) -> None:
        """LangGraph's tables."""
        await self.checkpointer.setup()
        await self.store.setup()

    async def aclose(self, grace: float) -> None:
        """Nothing: the connections are the facade's."""


async def _on_connection(database: Database, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run statements that bring their own transactions, waiting for the file as long as is set."""
    patience = int(database.config.busy_timeout * 1000)

    def patient(raw: sqlite3.Connection) -> T:
        usual = raw.execute("PRAGMA busy_timeout").fetchone()[0]
        raw.execute(f"PRAGMA busy_timeout = {patience}")
        try:
            return work(raw)
        finally:
            raw.execute(f"PRAGMA busy_timeout = {usual}")

    def apply(connection: Connection) -> Awaitable[T]:
        return cast("SQLiteConnection", connection).apply(patient)

    return await database.on_connection(apply, writes=True)


def _make_tables(raw: sqlite3.Connection) -> None:
    _ThreadSaver(raw).make_tables()


def _is_done_already(error: Exception) -> bool:
    cause = error.__cause__ or error
    return "duplicate column name" in str(cause)
