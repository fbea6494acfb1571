"""The verbs, the same on a database and on a session."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, TypeVar, overload

from deerstore.database.calls import Connections
from deerstore.database.engine import Result
from deerstore.database.failures import execution_error
from deerstore.database.rows import Row, build_rows
from deerstore.database.units import Unit, check_reading, converse
from deerstore.errors import InvalidValueError, NotFoundError
from deerstore.queries import CompiledQuery, Query, QueryCatalog

__all__ = ["Executor", "log_sql"]

M = TypeVar("M")
T = TypeVar("T")

_sql_log = logging.getLogger("deerstore.sql")

_NO_PARAMS: Mapping[str, Any] = {}


class Executor(ABC):
    """Runs queries of a catalog. A :class:`Database` commits each call, a :class:`Session` does
    not.

    Every verb takes a query and its parameters as keywords. Rows come back as read-only mappings
    that are also addressed by position, or as instances of the model given as ``as_`` (a pydantic
    model, a dataclass, a ``TypedDict`` or a ``NamedTuple``).

    All of them raise:
        InvalidValueError: a parameter is missing, unknown or of the wrong type; nothing was sent.
        QueryExecutionError: the engine refused the statement, or it took longer than
            ``command_timeout``. ``sqlstate`` is ``23505`` for a duplicate, ``23503`` for a broken
            foreign key, ``23502`` for a NULL and ``23514`` for a check, on every engine.
        RetryableError: a deadlock, a serialization failure or a lock that was not given in time.
        ConnectionLostError: the connection went away; whether the statement ran is not known.
        PoolTimeoutError: no connection became free within ``acquire_timeout``.
    """

    _connections: Connections

    # -- reading ---------------------------------------------------------------------------------

    @overload
    async def fetch_all(self, query: Query, /, *, as_: type[M], **params: Any) -> list[M]: ...
    @overload
    async def fetch_all(self, query: Query, /, **params: Any) -> list[Row]: ...
    async def fetch_all(
        self, query: Query, /, *, as_: type[Any] | None = None, **params: Any
    ) -> list[Any]:
        """All rows."""
        return await self._fetch(query, as_, params)

    @overload
    async def fetch_one(self, query: Query, /, *, as_: type[M], **params: Any) -> M: ...
    @overload
    async def fetch_one(self, query: Query, /, **params: Any) -> Row: ...
    async def fetch_one(
        self, query: Query, /, *, as_: type[Any] | None = None, **params: Any
    ) -> Any:
        """The one row that there has to be.

        Raises:
            NotFoundError: there is none.
            QueryExecutionError: there are several.
        """
        rows = await self._fetch(query, as_, params, at_most_one=True)
        if not rows:
            raise NotFoundError(f"{query.name} found no row")
        return rows[0]

    @overload
    async def fetch_optional(self, query: Query, /, *, as_: type[M], **params: Any) -> M | None: ...
    @overload
    async def fetch_optional(self, query: Query, /, **params: Any) -> Row | None: ...
    async def fetch_optional(
        self, query: Query, /, *, as_: type[Any] | None = None, **params: Any
    ) -> Any:
        """The row, or None.

        Raises:
            QueryExecutionError: there are several.
        """
        rows = await self._fetch(query, as_, params, at_most_one=True)
        return rows[0] if rows else None

    async def fetch_value(self, query: Query, /, **params: Any) -> Any:
        """The first column of the row; None when there is no row.

        Raises:
            QueryExecutionError: there are several rows.
        """
        rows = await self.fetch_tuples(query, params)
        if len(rows) > 1:
            raise _too_many(query.compiled(self._connections.engine.codec), len(rows))
        return rows[0][0] if rows else None

    async def fetch_tuples(
        self, query: Query, params: Mapping[str, Any] = _NO_PARAMS, /
    ) -> list[tuple[Any, ...]]:
        """All rows as plain tuples in the order of the columns: the shortest way."""
        compiled = query.compiled(self._connections.engine.codec)
        bound = compiled.bind(params)
        if self._connections.echo:
            log_sql(compiled)
        return self._typed(compiled, await self._run(compiled, bound, rows=True))

    @overload
    def stream(
        self, query: Query, /, *, as_: type[M], batch: int = 500, **params: Any
    ) -> AsyncGenerator[M, None]: ...
    @overload
    def stream(
        self, query: Query, /, *, batch: int = 500, **params: Any
    ) -> AsyncGenerator[Row, None]: ...
    async def stream(
        self, query: Query, /, *, as_: type[Any] | None = None, batch: int = 500, **params: Any
    ) -> AsyncGenerator[Any, None]:
        """The rows of a reading query one by one, ``batch`` of them in memory.

        The connection is busy until the last row, or until the loop is left. In a ``try`` or where
        the moment of closing matters, wrap it: ``async with aclosing(db.stream(…)) as rows``.
        """
        compiled = query.compiled(self._connections.engine.codec)
        if compiled.writes or len(compiled.steps) != 1:
            raise InvalidValueError(f"stream takes a reading query; {query.name} writes")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise InvalidValueError("batch must be a whole number of at least 1", field="batch")
        bound = compiled.bind(params)
        if self._connections.echo:
            log_sql(compiled)
        async with aclosing(self._portions(compiled, bound, batch)) as portions:
            async for portion in portions:
                rows = self._typed(compiled, portion)
                for row in build_rows(compiled, portion.names, rows, as_):
                    yield row

    # -- writing ---------------------------------------------------------------------------------

    async def execute(self, query: Query, /, **params: Any) -> int:
        """Execute a query; how many rows it matched, whether or not it changed them."""
        compiled = query.compiled(self._connections.engine.codec)
        bound = compiled.bind(params)
        if self._connections.echo:
            log_sql(compiled)
        return (await self._run(compiled, bound, rows=False)).count

    async def execute_many(self, query: Query, rows: Sequence[Mapping[str, Any]], /) -> int:
        """Execute a query once per mapping of parameters, all or nothing.

        Gives how many rows were matched in all; for a query declared ``:exec``, which promises no
        count, how often it was executed.
        """
        compiled = query.compiled(self._connections.engine.codec)
        bound = [compiled.bind(params) for params in rows]
        if not bound:
            return 0
        if self._connections.echo:
            log_sql(compiled)
        count = await self._run_many(compiled, bound)
        return len(bound) if compiled.cardinality == "exec" else count

    # -- units -----------------------------------------------------------------------------------

    @abstractmethod
    def atomic(self) -> AbstractAsyncContextManager[Executor]:
        """Several calls, all or nothing, on the executor that the block is given.

        On a database: a transaction of its own, committed at the end. On a session: a savepoint.
        """

    @abstractmethod
    async def retrying(self, work: Callable[[Executor], Awaitable[T]]) -> T:
        """Run ``work`` as one unit, and again when the engine gives it up.

        On a database: in a transaction of its own, a bounded number of times with a random pause
        after each deadlock or serialization failure. On a session once, in a savepoint: the
        transaction is the caller's, and so is the :class:`~deerstore.errors.RetryableError`.
        """

    async def unit(self, work: Callable[[], Unit[T]], *, writes: bool = True) -> T:
        """Run a :data:`~deerstore.database.units.Unit`: several queries with Python between them.

        One that writes is all or nothing and is repeated as :meth:`retrying` does, for which
        ``work`` makes a new generator each time. One that only reads is a row of single
        statements. On a database over SQLite either is one trip.
        """
        if not writes:
            return await converse(work(), self._read)
        return await self.retrying(lambda tx: converse(work(), tx.fetch_tuples))

    @property
    def catalog(self) -> QueryCatalog:
        """The queries that deerstore itself uses."""
        from deerstore.database.catalog import deerstore_queries

        return deerstore_queries()

    # -- inside ----------------------------------------------------------------------------------

    @abstractmethod
    async def _run(self, query: CompiledQuery, bound: Sequence[Any], *, rows: bool) -> Result: ...

    @abstractmethod
    async def _run_many(self, query: CompiledQuery, bound: Sequence[Sequence[Any]]) -> int: ...

    @abstractmethod
    def _portions(
        self, query: CompiledQuery, bound: Sequence[Any], batch: int
    ) -> AsyncGenerator[Result, None]: ...

    async def _read(self, query: Query, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        check_reading(query.compiled(self._connections.engine.codec))
        return await self.fetch_tuples(query, params)

    async def _fetch(
        self, query: Query, model: Any, params: Mapping[str, Any], *, at_most_one: bool = False
    ) -> list[Any]:
        compiled = query.compiled(self._connections.engine.codec)
        bound = compiled.bind(params)
        if self._connections.echo:
            log_sql(compiled)
        result = await self._run(compiled, bound, rows=True)
        rows = self._typed(compiled, result)
        if at_most_one and len(rows) > 1:
            raise _too_many(compiled, len(rows))
        return build_rows(compiled, result.names, rows, model) if rows else []

    def _typed(self, query: CompiledQuery, result: Result) -> list[tuple[Any, ...]]:
        if query.columns is None:
            return self._connections.engine.normalise(result)
        return query.decode_rows(result.rows)


def log_sql(query: CompiledQuery) -> None:
    """What ``echo_sql`` asks for: the statements, never their values."""
    for step in query.steps:
        _sql_log.info("%s", step.sql, extra={"query": query.name})


def _too_many(query: CompiledQuery, count: int) -> Exception:
    return execution_error(query, f"it found {count} rows where at most one may be")
