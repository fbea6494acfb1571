"""What the schema room asks of an engine: one blocking connection, a lock, a few DDL words.

Everything here blocks, and runs on a :class:`~deerstore.schema.thread.SchemaThread`. Every
statement of a migration or an adoption goes through :meth:`SchemaEngine.run`, one at a time and
outside a transaction unless :meth:`SchemaEngine.in_transaction` says otherwise, so that a process
killed anywhere leaves whole steps behind.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from deerstore.config.url import Engine
from deerstore.database.catalog import deerstore_queries, engine_queries
from deerstore.errors import ConnectionLostError, SchemaError
from deerstore.queries import Codec, QueryCatalog

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["LOCK_PATIENCE", "LOCK_SLICE", "SchemaEngine", "SetupCancelledError", "SetupLock"]

logger = logging.getLogger("deerstore.schema")

T = TypeVar("T")

LOCK_SLICE = 3
"""Seconds that one attempt of a statement waits for a table's lock before it lets others pass.

A waiting ``ALTER TABLE`` holds up every later reader and writer of its table; giving up and
trying again keeps a gateway that still runs on the database alive.
"""

LOCK_PATIENCE = 600.0
"""Seconds after which a statement that never got its table's lock fails."""

_RETRY_PAUSE = 0.5


def schema_queries(engine: Engine) -> QueryCatalog:
    """The shipped queries, with those of one engine read."""
    return deerstore_queries().load(engine)


class SetupCancelledError(Exception):
    """The coroutine that wanted this work was cancelled."""


class SchemaEngine(ABC):
    """A blocking connection of one engine, for DDL."""

    name: ClassVar[Engine]
    driver: ModuleType
    codec: ClassVar[Codec]
    begin_statement: ClassVar[str] = "BEGIN"

    def __init__(self, config: StorageConfig) -> None:
        self.config = config
        self.stopped = threading.Event()
        self._connection: Any = None
        self._in_transaction = False

    # -- life ------------------------------------------------------------------------------------

    @property
    def connection(self) -> Any:
        """The open driver connection, in autocommit mode."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        """Close the connection; twice is fine."""
        connection, self._connection = self._connection, None
        self._in_transaction = False
        if connection is not None:
            connection.close()

    @abstractmethod
    def _connect(self) -> Any:
        """Open a driver connection that commits each statement by itself."""

    @abstractmethod
    def interrupt(self) -> None:
        """Stop the statement that another thread is running on this connection."""

    # -- the database itself ---------------------------------------------------------------------

    @abstractmethod
    def place(self) -> str:
        """Where the tables are, for people: a path, or host, database and schema."""

    @abstractmethod
    def database_exists(self) -> bool:
        """Whether there is a database to connect to. Raises when that cannot be found out."""

    @abstractmethod
    def create_database(self) -> None:
        """Create what :meth:`database_exists` misses, and the PostgreSQL schema.

        Raises :class:`~deerstore.errors.SchemaError` with the statement to run when the role may
        not. A competitor that creates it at the same time is no error.
        """

    @abstractmethod
    def lock(self) -> SetupLock:
        """The lock that keeps all other deerstore processes out of this database's schema."""

    @abstractmethod
    def others_change_schema(self) -> bool:
        """Whether another session is changing a table right now, as far as one can see."""

    # -- statements ------------------------------------------------------------------------------

    def table_names(self) -> frozenset[str]:
        """The base tables of the database (PostgreSQL: of its current schema)."""
        return frozenset(name for (name,) in self.query("schema.tables"))

    def query(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query of the catalog and return its typed rows."""
        return self._ask(schema_queries(self.name), name, params)

    def query_server(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query that this engine alone has and return its typed rows."""
        return self._ask(engine_queries("server", self.name), name, params)

    def _ask(
        self, catalog: QueryCatalog, name: str, params: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        compiled = catalog[name].compiled(self.codec)
        rows: list[tuple[Any, ...]] = []
        for step, args in zip(compiled.steps, compiled.bind(params), strict=True):
            rows = self.run(step.sql, args)
        return compiled.decode_rows(rows)

    def run(self, sql: str, args: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; the driver's errors come out unchanged.

        Outside a transaction a statement that finds its table locked is tried again.
        """
        self.check_stopped()
        if self._in_transaction:
            return self._execute(sql, args)
        return self.patiently(lambda: self._execute(sql, args), head(sql))

    def in_transaction(self, work: Callable[[], T], what: str) -> T:
        """Run ``work`` in one transaction, again from its start while it meets others' locks."""

        def attempt() -> T:
            with self._transaction():
                return work()

        return self.patiently(attempt, what)

    def patiently(self, attempt: Callable[[], T], what: str) -> T:
        """Call ``attempt`` again while it finds something locked, for :data:`LOCK_PATIENCE`."""
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                return attempt()
            except self.driver.Error as error:
                if not self.is_lock_conflict(error) or time.monotonic() > deadline:
                    raise
                logger.info("waiting for a lock: %s", what)
            self.stopped.wait(_RETRY_PAUSE)
            self.check_stopped()

    @abstractmethod
    def _execute(self, sql: str, args: Sequence[Any] | None) -> list[tuple[Any, ...]]:
        """Hand one statement to the driver."""

    @abstractmethod
    def is_lock_conflict(self, error: Exception) -> bool:
        """Whether the statement did nothing because somebody held a lock."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.run(self.begin_statement)
        self._in_transaction = True
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            # A broken connection has rolled back by itself; the first error is the one to show.
            with suppress(self.driver.Error):
                self._execute("ROLLBACK", None)
            raise
        finally:
            self._in_transaction = False

    def check_stopped(self) -> None:
        """Raise when the coroutine behind this work has gone."""
        if self.stopped.is_set():
            raise SetupCancelledError

    # -- errors ----------------------------------------------------------------------------------

    @abstractmethod
    def message(self, error: BaseException) -> str:
        """The engine's own words and code for a driver error, in one line."""

    @abstractmethod
    def is_disconnect(self, error: BaseException) -> bool:
        """Whether the error means that there is no connection (any more)."""

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Turn a driver's error into one of deerstore's, with the engine's own message."""
        try:
            yield
        except self.driver.Error as error:
            text = f"{doing}: {self.message(error)}"
            if self.is_disconnect(error):
                raise ConnectionLostError(text) from error
            raise SchemaError(text) from error


class SetupLock(ABC):
    """A lock across processes, on a connection of its own, freed when its process dies."""

    @abstractmethod
    def try_acquire(self) -> bool:
        """Take the lock if it is free. Never waits longer than about a second."""

    @abstractmethod
    def release(self) -> None:
        """Free the lock and close its connection; harmless when it is not held."""


def head(sql: str, length: int = 80) -> str:
    """The beginning of a statement in one line, for messages."""
    text = " ".join(sql.split())
    return text if len(text) <= length else text[: length - 3] + "..."
