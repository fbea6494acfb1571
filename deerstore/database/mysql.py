"""MySQL and MariaDB over aiomysql or asyncmy."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from deerstore.database import codecs
from deerstore.database.engine import (
    Connection,
    Deadline,
    Engine,
    Result,
    Scope,
    Verdict,
    lock_patience,
)
from deerstore.database.failures import (
    CHECK_VIOLATION,
    FOREIGN_KEY_VIOLATION,
    NOT_NULL_VIOLATION,
    QUERY_CANCELED,
    UNIQUE_VIOLATION,
    execution_error,
    lost_error,
    retryable_error,
    unreachable_error,
)
from deerstore.database.mysql_drivers import Driver, described, driver_named
from deerstore.database.mysql_packets import PACKET_TOO_LARGE, PacketLimit, too_large_error
from deerstore.database.mysql_text import BulkInsert, bulk_insert
from deerstore.errors import ConfigError
from deerstore.queries import Codec, CompiledQuery, CompiledStep

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["MySQLConnection", "MySQLEngine"]

T = TypeVar("T")

_log = logging.getLogger("deerstore.database")

_FIRST = datetime(1, 1, 1)  # noqa: DTZ001 - as the drivers give it
_FIRST_IN_UTC = _FIRST.replace(tzinfo=UTC)
_GUARD = "deerstore_guard"
_KILL_SECONDS = 5.0
_NO_SUCH_THREAD = 1094

_DEADLOCKS = frozenset({1213, 1020})
_LOCK_TIMEOUTS = frozenset({1205, 3572})
_LOST = frozenset({1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2002, 2003, 2006})
_LOST |= frozenset({2013, 2014, 2027, 2055, 4031})
_STOPPED = frozenset({1317, 1969, 3024})
_SQLSTATES = {
    1062: UNIQUE_VIOLATION,
    1169: UNIQUE_VIOLATION,
    1586: UNIQUE_VIOLATION,
    1216: FOREIGN_KEY_VIOLATION,
    1217: FOREIGN_KEY_VIOLATION,
    1451: FOREIGN_KEY_VIOLATION,
    1452: FOREIGN_KEY_VIOLATION,
    1048: NOT_NULL_VIOLATION,
    1364: NOT_NULL_VIOLATION,
    3819: CHECK_VIOLATION,
    4025: CHECK_VIOLATION,
    **dict.fromkeys(_STOPPED, QUERY_CANCELED),
}
# Unknown names and missing privileges: these messages speak of the schema only.
_SPEAKABLE = frozenset(
    {1044, 1049, 1051, 1052, 1054, 1109, 1142, 1143, 1146, 1305, 4025, 3819, 1048, 1364}
)
_BROKEN_KEY = re.compile(r" for key '([^']+)'\Z")


class MySQLConnection(Connection):
    """One connection of either driver."""

    def __init__(self, engine: MySQLEngine, driver: Driver, raw: Any, cursor: Any) -> None:
        self.deadline = Deadline(engine.seconds)
        self._engine = engine
        self._driver = driver
        self._raw = raw
        # A cursor may be used again and again; making one per call is a trip through the event
        # loop for nothing.
        self._cursor = cursor
        self._limit = PacketLimit(raw, cursor)
        self._open = False

    @property
    def closed(self) -> bool:
        return self._driver.is_closed(self._raw)

    @property
    def in_transaction(self) -> bool:
        return self._open and not self.closed

    async def run(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, *, rows: bool
    ) -> Result:
        steps = query.steps
        if len(steps) == 1 and not steps[0].each:
            if scope.inside:
                await self._enter(scope)
            return await self._step(steps[0], bound[0], rows and query.columns is None)
        if not scope.inside:
            return await self._alone(lambda: self._steps(query, bound, rows))
        await self._enter(scope)
        return await self._guarded(scope, lambda: self._steps(query, bound, rows))

    async def run_many(
        self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope
    ) -> int:
        step = query.steps[0]

        async def work() -> int:
            if len(query.steps) == 1 and not step.each and not step.returns_rows:
                return await self._each(step, [args[0] for args in bound])
            count = 0
            for args in bound:
                count += (await self._steps(query, args, rows=False)).count
            return count

        if not scope.inside:
            return await self._alone(work)
        await self._enter(scope)
        return await self._guarded(scope, work)

    async def stream(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, batch: int
    ) -> AsyncGenerator[Result, None]:
        if scope.inside:
            await self._enter(scope)
        cursor = await self._driver.streaming_cursor(self._raw)
        step = query.steps[0]
        try:
            await self._driver.execute(self._raw, cursor, step.sql, bound[0])
            columns = described(cursor)
            while rows := await cursor.fetchmany(batch):
                yield Result(rows, len(rows), *columns)
        except GeneratorExit:
            if scope.inside:
                # The rest of the rows is read and dropped: the transaction has to live on.
                await cursor.close()
            else:
                await self.abandon()
            raise
        await cursor.close()

    async def begin(self, savepoints: Sequence[str]) -> None:
        await self._enter(Scope(begin=True, inside=True, savepoints=tuple(savepoints)))

    async def commit(self) -> None:
        await self._raw.commit()
        self._open = False

    async def rollback(self) -> None:
        await self._raw.rollback()
        self._open = False

    async def release(self, savepoint: str) -> None:
        await self._command(f"RELEASE SAVEPOINT {savepoint}")

    async def rollback_to(self, savepoint: str) -> None:
        await self._command(f"ROLLBACK TO SAVEPOINT {savepoint}")
        await self._command(f"RELEASE SAVEPOINT {savepoint}")

    async def abandon(self) -> None:
        # The cancelled driver stopped in the middle of an answer: this connection is of no use
        # any more, but the server goes on with the statement until it is told.
        thread = self._raw.thread_id()
        self.terminate()
        await self._engine.kill(thread)

    async def check(self) -> None:
        await self._raw.ping(reconnect=False)

    async def close(self) -> None:
        self.deadline.close()
        await self._raw.ensure_closed()

    def terminate(self) -> None:
        self.deadline.close()
        self._open = False
        self._raw.close()

    # --------------------------------------------------------------------------------------------

    async def _command(self, sql: str) -> None:
        await self._cursor.execute(sql)

    async def _enter(self, scope: Scope) -> None:
        if scope.begin:
            await self._raw.begin()
            self._open = True
        for savepoint in scope.savepoints:
            await self._command(f"SAVEPOINT {savepoint}")

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._enter(Scope(begin=True, inside=True))
        try:
            result = await work()
        except Exception:
            if not self.closed:
                await self.rollback()
            raise
        await self.commit()
        return result

    async def _guarded(self, scope: Scope, work: Callable[[], Awaitable[T]]) -> T:
        if not scope.guarded:
            return await work()
        await self._command(f"SAVEPOINT {_GUARD}")
        try:
            result = await work()
        except Exception as error:
            # A deadlock has rolled back everything, the savepoint included.
            if not self.closed and _code(error) not in _DEADLOCKS:
                await self.rollback_to(_GUARD)
            raise
        await self._command(f"RELEASE SAVEPOINT {_GUARD}")
        return result

    async def _steps(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        found: dict[str, Any] = {}
        result = Result((), 0, None)
        for number, step in enumerate(query.steps):
            args = step.fill(bound[number], found)
            if step.each:
                outcome = Result((), await self._each(step, args), None)
            else:
                outcome = await self._step(step, args, rows and query.columns is None)
                if step.returns and outcome.rows:
                    found.update(zip(step.returns, outcome.rows[0], strict=False))
            if number == query.result_step:
                result = outcome
        return result

    async def _step(self, step: CompiledStep, args: Sequence[Any], named: bool) -> Result:
        cursor = self._cursor
        await self._limit.check(step.sql, (args,))
        await self._driver.execute(self._raw, cursor, step.sql, args)
        if step.gives_id:
            given = ((cursor.lastrowid,),) if cursor.rowcount else ()
            return Result(given, len(given), step.returns if named else None)
        if not step.returns_rows:
            return Result((), cursor.rowcount, None)
        fetched = await cursor.fetchall()
        return Result(fetched, len(fetched), *(described(cursor) if named else (None,)))

    async def _each(self, step: CompiledStep, rows: Sequence[Sequence[Any]]) -> int:
        await self._limit.check(step.sql, rows)
        insert = self._engine.bulk(step.sql)
        if insert is not None and len(rows) > 1:
            return await self._driver.insert_many(self._raw, self._cursor, insert, rows)
        count = 0
        for args in rows:
            await self._driver.execute(self._raw, self._cursor, step.sql, args)
            count += self._cursor.rowcount
        return count


class MySQLEngine(Engine):
    """A MySQL or MariaDB server."""

    name = "mysql"

    def __init__(self, config: StorageConfig) -> None:
        self._config = config
        self._driver = driver_named(config.mysql_driver)
        self._failures: tuple[type[Exception], ...] = (OSError, TimeoutError, *self._driver.errors)
        self.seconds = config.command_timeout
        self._kwargs = config.targets.aiomysql_kwargs()
        # The server counts whole seconds, and knows no zero here.
        seconds = max(1, int(lock_patience(config)))
        settings = f"innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}"
        # A server may be told to ignore the character set of the handshake.
        settings += ", NAMES utf8mb4"
        self._kwargs["init_command"] = f"{self._kwargs['init_command']}, {settings}"
        self._bulks: dict[str, BulkInsert | None] = {}
        self.codec = Codec(
            engine="mysql",
            encoders={
                "timestamp": lambda value: value.replace(tzinfo=None),
                "bool": int,
                "json": codecs.encode_json,
                "text[]": codecs.array_of(),
                "int[]": codecs.array_of(),
                "float[]": codecs.array_of(),
                "bool[]": codecs.array_of(),
                "timestamp[]": codecs.array_of(codecs.timestamp_text),
                "json[]": codecs.array_of(codecs.encode_json),
                "bytes[]": codecs.array_of(bytes.hex),
            },
            decoders={
                "timestamp": codecs.stored_timestamp,
                "bool": codecs.stored_bool,
                "float": codecs.stored_float,
                "json": codecs.stored_json,
                "bytes": codecs.stored_bytes,
            },
            shortcuts={
                # The drivers give no zone. replace() takes eight times as long.
                "timestamp": ("{extra}[1] + ({value} - {extra}[0])", (_FIRST, _FIRST_IN_UTC)),
                "bool": ("{value} != 0 if type({value}) is {extra} else {decode}({value})", int),
            },
        )

    async def connect(self) -> MySQLConnection:
        try:
            raw = await self._driver.connect(self._kwargs)
        except self._failures as error:
            raise self._refusal(error) from error
        return MySQLConnection(self, self._driver, raw, await self._driver.cursor(raw))

    async def kill(self, thread: int) -> None:
        """Stop what a connection that was given up still does on the server, and see it end."""
        try:
            async with asyncio.timeout(_KILL_SECONDS):
                raw = await self._driver.connect(self._kwargs)
                try:
                    await self._kill(await self._driver.cursor(raw), thread)
                finally:
                    raw.close()
        except self._failures as error:
            _log.warning(
                "connection %d could not be ended on the server: %s", thread, type(error).__name__
            )

    async def _kill(self, cursor: Any, thread: int) -> None:
        pause = 0.001
        while True:
            try:
                await cursor.execute(f"KILL CONNECTION {thread:d}")
            except self._driver.errors as error:
                if _code(error) != _NO_SUCH_THREAD:
                    raise
                return
            # Until its session has gone, and its locks with it, the server takes the order again.
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)

    def bulk(self, sql: str) -> BulkInsert | None:
        """The form of an INSERT for many rows at once; None for any other statement."""
        try:
            return self._bulks[sql]
        except KeyError:
            return self._bulks.setdefault(sql, bulk_insert(sql))

    def judge(self, error: Exception, query: CompiledQuery | None) -> Verdict:
        if isinstance(error, OSError):
            return Verdict(lost_error(query, type(error).__name__), lost=True)
        if not isinstance(error, self._driver.errors):
            # Not the driver's: nobody knows what state it left the connection in.
            return Verdict(error, lost=True)
        code = _code(error)
        if code in _DEADLOCKS:
            return Verdict(retryable_error(query, "deadlock"), repeatable=True)
        if code in _LOCK_TIMEOUTS:
            return Verdict(retryable_error(query, "a lock was not given in time"))
        if code == PACKET_TOO_LARGE:
            return Verdict(too_large_error(query), lost=True)
        # Without a server's code the driver has found the conversation broken.
        if code in _LOST or code < 1000:
            return Verdict(lost_error(query, type(error).__name__), lost=True)
        return Verdict(
            execution_error(
                query, _reason(error, code), sqlstate=_SQLSTATES.get(code), engine_code=code
            )
        )

    def _refusal(self, error: Exception) -> Exception:
        place, code = self._config.location, _code(error)
        if code in (1044, 1045, 1698):
            return ConfigError(
                f"{place} refuses the login: check username, password and grants [{code}]"
            )
        if code == 1049:
            return ConfigError(
                f"{place}: the database does not exist; create it with: "
                f"CREATE DATABASE `{self._config.db_name}` CHARACTER SET utf8mb4"
            )
        return unreachable_error(place, error)


def _code(error: Exception) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def _reason(error: Exception, code: int) -> str:
    message = str(error.args[1]) if len(error.args) > 1 else ""
    if code in _SPEAKABLE:
        return message
    # The message of a duplicate begins with the value and ends with the key's name.
    key = _BROKEN_KEY.search(message) if _SQLSTATES.get(code) == UNIQUE_VIOLATION else None
    return f"key {key.group(1)}" if key else type(error).__name__
