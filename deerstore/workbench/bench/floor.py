"""The floor: the statements of an operation on the bare driver.

What deerstore would send is recorded once, outside the timing; played back it goes to the driver's
own calls. Rows are decoded to what the DTO would hold, in a plain tuple.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deerstore.database import Database, Session
from deerstore.database.engine import Result
from deerstore.database.mysql_text import bulk_insert
from deerstore.queries import CompiledQuery, CompiledStep

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from deerstore.config import StorageConfig

__all__ = ["Call", "Floor", "open_floor", "record"]

Call = tuple[CompiledQuery, Sequence[Any]]
Rows = list[Sequence[Any]]

_JSON = frozenset({"metadata_json", "kwargs_json", "token_usage_by_model", "event_metadata"})


class _Recorder(Session):
    """A session that keeps what it sends."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, database._connections)  # noqa: SLF001 - a session like any other
        self.calls: list[Call] = []

    async def _run(self, query: CompiledQuery, bound: Sequence[Any], *, rows: bool) -> Result:
        self.calls.append((query, bound))
        return await super()._run(query, bound, rows=rows)


async def record(
    database: Database, work: Callable[[Session], Awaitable[object]]
) -> tuple[list[Call], object]:
    """What ``work`` sends, and its result; what it wrote is undone."""
    async with _Recorder(database) as session:
        result = await work(session)
        return session.calls, result


class Floor(ABC):
    """A connection of the bare driver that plays calls back."""

    @abstractmethod
    async def play(self, calls: Sequence[Call]) -> Rows:
        """Run the calls, as one transaction if there are several statements and one writes.

        Gives the rows of the last statement that has some, decoded.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""


async def open_floor(config: StorageConfig) -> Floor:
    """The floor of an engine and driver, connected with deerstore's session settings."""
    if config.driver == "sqlite":
        return await _SQLite.open(config)
    if config.driver == "postgres":
        return await _Postgres.open(config)
    return await (_AsyncMy if config.mysql_driver == "asyncmy" else _AioMySQL).open(config)


def _is_plain(calls: Sequence[Call]) -> bool:
    return (len(calls) == 1 and len(calls[0][0].steps) == 1) or not any(
        query.writes for query, _ in calls
    )


def _time_of_text(text: str) -> datetime:
    return datetime.fromisoformat(text + "+00:00")


def _time_of_naive(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


_decoders: dict[tuple[int, str], Callable[[Rows], Rows]] = {}


def _decoded(query: CompiledQuery, rows: Rows, time: Callable[[Any], datetime] | None) -> Rows:
    decode = _decoders.get((id(query), query.engine))
    if decode is None:
        decode = _decoders[id(query), query.engine] = _decoder(query, time)
    return decode(rows)


def _decoder(
    query: CompiledQuery, time: Callable[[Any], datetime] | None
) -> Callable[[Rows], Rows]:
    names = [column.name for column in query.columns or ()]
    work = _column_work(query, time)
    loads = json.loads
    # The column that says how an event's content is to be read is not part of the event.
    form = names.index("content_format") if "content_format" in names else None
    content = names.index("content") if form is not None else 0

    def decode(rows: Rows) -> Rows:
        decoded: Rows = []
        for row in rows:
            values = list(row)
            for index, read in work:
                if values[index] is not None:
                    values[index] = read(values[index])
            if form is not None and values.pop(form) == "json":
                values[content] = loads(values[content])
            decoded.append(values)
        return decoded

    return decode


def _column_work(
    query: CompiledQuery, time: Callable[[Any], datetime] | None
) -> list[tuple[int, Callable[[Any], Any]]]:
    work: list[tuple[int, Callable[[Any], Any]]] = []
    for index, column in enumerate(query.columns or ()):
        if column.name in _JSON:
            work.append((index, json.loads))
        elif column.type == "timestamp" and time is not None:
            work.append((index, time))
        elif column.type == "bool" and query.engine != "postgres":
            work.append((index, bool))
    return work


class _Postgres(Floor):
    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @classmethod
    async def open(cls, config: StorageConfig) -> Floor:
        import asyncpg

        return cls(await asyncpg.connect(**config.targets.asyncpg_kwargs()))

    async def play(self, calls: Sequence[Call]) -> Rows:
        if _is_plain(calls):
            for query, bound in calls:
                rows = await self._step(query, query.steps[0], bound[0])
            return rows
        await self._raw.execute("BEGIN")
        result: Rows = []
        for query, bound in calls:
            found: dict[str, Any] = {}
            for step, args in zip(query.steps, bound, strict=True):
                args = step.fill(args, found)  # noqa: PLW2901
                if step.each:
                    await self._raw.executemany(step.sql, args)
                    continue
                rows = await self._step(query, step, args)
                if step.returns:
                    found = dict(zip(step.returns, rows[0], strict=False))
                result = rows or result
        await self._raw.execute("COMMIT")
        return result

    async def _step(self, query: CompiledQuery, step: CompiledStep, args: Sequence[Any]) -> Rows:
        if not step.returns_rows:
            await self._raw.execute(step.sql, *args)
            return []
        rows = await self._raw.fetch(step.sql, *args)
        return rows if step.returns else _decoded(query, rows, None)

    async def close(self) -> None:
        await self._raw.close()


class _SQLite(Floor):
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._raw: Any = connection._conn  # noqa: SLF001 - one trip: its cursors make one each

    @classmethod
    async def open(cls, config: StorageConfig) -> Floor:
        import aiosqlite

        connection = await aiosqlite.connect(
            config.targets.sqlite_path(), isolation_level=None, cached_statements=512
        )
        await connection.execute("PRAGMA busy_timeout = 30000")
        await connection.execute(f"PRAGMA synchronous = {config.sqlite_synchronous}")
        await connection.execute("PRAGMA foreign_keys = ON")
        return cls(connection)

    async def play(self, calls: Sequence[Call]) -> Rows:
        query, rows = await self._connection._execute(self._unit, calls)  # noqa: SLF001
        return _decoded(query, rows, _time_of_text)

    def _unit(self, calls: Sequence[Call]) -> tuple[CompiledQuery, Rows]:
        execute = self._raw.execute
        if len(calls) == 1 and len(calls[0][0].steps) == 1:
            query, bound = calls[0]
            return query, execute(query.steps[0].sql, bound[0]).fetchall()
        writes = any(query.writes for query, _ in calls)
        if writes:
            execute("BEGIN IMMEDIATE")
        result: Rows = []
        for query, bound in calls:
            found: dict[str, Any] = {}
            for step, args in zip(query.steps, bound, strict=True):
                args = step.fill(args, found)  # noqa: PLW2901
                if step.each:
                    self._raw.executemany(step.sql, args)
                    continue
                rows = execute(step.sql, args).fetchall()
                if step.returns and rows:
                    found = dict(zip(step.returns, rows[0], strict=False))
                result = rows or result
        if writes:
            execute("COMMIT")
        return calls[-1][0], result

    async def close(self) -> None:
        await self._connection.close()


class _AioMySQL(Floor):
    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @classmethod
    async def open(cls, config: StorageConfig) -> Floor:
        import aiomysql

        return cls(await aiomysql.connect(**config.targets.aiomysql_kwargs(), autocommit=True))

    async def play(self, calls: Sequence[Call]) -> Rows:
        plain = _is_plain(calls)
        if not plain:
            await self._raw.begin()
        result: Rows = []
        for query, bound in calls:
            found: dict[str, Any] = {}
            for step, args in zip(query.steps, bound, strict=True):
                args = step.fill(args, found)  # noqa: PLW2901
                if step.each:
                    await self._many(step.sql, args)
                    continue
                async with self._raw.cursor() as cursor:
                    await cursor.execute(step.sql, args)
                    rows = await cursor.fetchall() if step.returns_rows else []
                    if step.gives_id:
                        rows = [(cursor.lastrowid,)]
                if step.returns:
                    found = dict(zip(step.returns, rows[0], strict=False))
                    result = rows
                elif rows:
                    result = _decoded(query, rows, _time_of_naive)
        if not plain:
            await self._raw.commit()
        return result

    async def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """One INSERT with all rows."""
        parts = bulk_insert(sql)
        assert parts is not None
        async with self._raw.cursor() as cursor:
            for text in parts.statements(rows, self._raw):
                await cursor.execute(text)

    async def close(self) -> None:
        await self._raw.ensure_closed()


class _AsyncMy(_AioMySQL):
    @classmethod
    async def open(cls, config: StorageConfig) -> Floor:
        import asyncmy

        kwargs = config.targets.aiomysql_kwargs()
        return cls(await asyncmy.connect(**kwargs, autocommit=True, stmt_cache_size=256))

    async def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """The driver's own bulk call: one trip in binary form on MariaDB."""
        async with self._raw.cursor() as cursor:
            await cursor.executemany(sql, rows)
