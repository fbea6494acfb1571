"""SQLite over aiosqlite: every call, a whole transaction included, is one trip to the thread.

An ``await`` on an aiosqlite cursor costs far more in travel between threads than SQLite needs for
its work, so that the steps of a call are run together on the connection's thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

from deerstore.database import codecs
from deerstore.database.engine import (
    Deadline,
    Engine,
    FileConnection,
    Result,
    RunQuery,
    Scope,
    Verdict,
    lock_patience,
)
from deerstore.database.failures import (
    CHECK_VIOLATION,
    FOREIGN_KEY_VIOLATION,
    NOT_NULL_VIOLATION,
    UNIQUE_VIOLATION,
    execution_error,
    lost_error,
    retryable_error,
)
from deerstore.database.gate import WriterGate, gate_of
from deerstore.database.sqlite_thread import ThreadSide, primary_code
from deerstore.database.sqlite_types import DeclaredTypes
from deerstore.errors import ConnectionLostError
from deerstore.queries import Codec, CompiledQuery

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.database.joined_reads import JoinedRead, ReadingTrip
    from deerstore.database.joined_writes import JoinedWrite

__all__ = ["SQLiteConnection", "SQLiteEngine"]

T = TypeVar("T")

_SQLSTATES = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_ROWID: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: FOREIGN_KEY_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_NOTNULL: NOT_NULL_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_CHECK: CHECK_VIOLATION,
}
# What aiosqlite raises. A unit may raise a ValueError of its own, which is handed on.
_CLOSED = frozenset({"Connection closed", "no active connection"})
# The messages of these speak of tables and columns, never of values.
_SPEAKABLE = frozenset(_SQLSTATES) | {sqlite3.SQLITE_ERROR}


class _Worker(aiosqlite.Connection):
    """aiosqlite's connection with its thread, and a way to run a whole unit on it."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # An unclosed connection must not keep the interpreter from exiting.
        self._thread.daemon = True

    def call(self, function: Callable[..., Any], *args: Any) -> Coroutine[Any, Any, Any]:
        """Run a function on the connection's thread: one trip, when it is awaited."""
        # Wrapped, since aiosqlite's debug log shows the function with its arguments.
        trip: Coroutine[Any, Any, Any]
        trip = self._execute(lambda: function(*args))  # type: ignore[no-untyped-call]
        return trip

    def send(self, function: Callable[..., None], *args: Any) -> asyncio.Future[None]:
        """The same without a task that could be cancelled; the future is not to be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._running and self._connection is not None:
            self._tx.put_nowait((future, partial(function, *args)))
        else:
            future.set_exception(ValueError("Connection closed"))
        return future

    def join(self) -> None:
        """Wait for the thread, which has been told to end."""
        self._thread.join()


class SQLiteConnection(FileConnection):
    """One connection and its thread."""

    def __init__(self, engine: SQLiteEngine) -> None:
        self.deadline = Deadline(engine.seconds)
        self._side = ThreadSide(engine.path, engine.synchronous, engine.patience, engine.types)
        self._worker = _Worker(self._side.connect)

    async def open(self) -> None:
        """Start the thread, open the file, apply the settings: one trip."""
        try:
            await self._worker
        except BaseException:
            self.terminate()
            raise

    @property
    def closed(self) -> bool:
        return self._side.gone

    @property
    def in_transaction(self) -> bool:
        return self._side.in_transaction

    def run(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, *, rows: bool
    ) -> Coroutine[Any, Any, Result]:
        return self._worker.call(self._side.run, query, bound, scope, rows)

    async def run_writes(self, writes: Sequence[JoinedWrite]) -> list[Result | Exception]:
        outcomes: list[Result | Exception]
        outcomes = await self._worker.call(self._side.run_writes, writes)
        return outcomes

    def send_reads(self, waiting: deque[JoinedRead], trip: ReadingTrip) -> asyncio.Future[None]:
        return self._worker.send(self._side.run_reads, waiting, trip)

    def interrupt(self) -> None:
        self._side.interrupt()

    async def run_unit(self, through: Callable[[RunQuery], T], *, writes: bool) -> T:
        result: T = await self._worker.call(self._side.run_unit, through, writes)
        return result

    async def run_many(
        self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope
    ) -> int:
        count: int = await self._worker.call(self._side.run_many, query, bound, scope)
        return count

    async def stream(
        self,
        query: CompiledQuery,
        bound: Sequence[Any],
        scope: Scope,  # noqa: ARG002 - reading is the same inside and outside a transaction
        batch: int,
    ) -> AsyncGenerator[Result, None]:
        portion: Result = await self._worker.call(self._side.first, query, bound, batch)
        try:
            while portion.rows:
                yield portion
                portion = await self._worker.call(self._side.next, portion, batch)
        except GeneratorExit:
            await self._worker.call(self._side.close_cursor)
            raise
        # The end of the rows has closed the cursor; after a failure abandon() or rollback does.

    async def apply(
        self, work: Callable[[sqlite3.Connection], T], *, begin: str | None = None
    ) -> T:
        """Run code that speaks to the driver itself: one trip.

        With ``begin`` (``"read"`` or ``"write"``) in a transaction of its own, which is committed
        when the code returns.
        """
        raw = self._side.raw
        assert raw is not None

        def call() -> T:
            return work(raw)

        if begin is None:
            done: T = await self._worker.call(call)
        else:
            done = await self._worker.call(self._side.alone, call, begin == "write")
        return done

    async def begin(self, savepoints: Sequence[str]) -> None:
        await self._worker.call(self._side.begin, savepoints)

    async def commit(self) -> None:
        await self._worker.call(self._side.execute, "COMMIT")

    async def rollback(self) -> None:
        await self._worker.call(self._side.roll_back)

    async def release(self, savepoint: str) -> None:
        await self._worker.call(self._side.execute, f"RELEASE {savepoint}")

    async def rollback_to(self, savepoint: str) -> None:
        await self._worker.call(self._side.undo, savepoint)

    async def abandon(self) -> None:
        self._side.stopping = True
        settled = asyncio.ensure_future(self._worker.call(self._side.settle))
        while not settled.done():
            # An interrupt ends only what runs at that moment: repeat until the thread is free.
            if self._side.stopping:
                self._side.interrupt()
            await asyncio.wait({settled}, timeout=0.005)
        settled.result()

    async def check(self) -> None:
        await self._worker.call(self._side.execute, "SELECT 1")

    async def close(self) -> None:
        self._side.gone = True
        self.deadline.close()
        await self._worker.close()
        self._worker.join()

    def terminate(self) -> None:
        if self._side.gone:
            return
        self._side.gone = True
        self._side.stopping = True
        self.deadline.close()
        self._side.interrupt()
        self._worker.stop()


class SQLiteEngine(Engine):
    """One file; readers beside one writer."""

    name = "sqlite"
    reads_at_a_time = 1
    in_file = True

    def __init__(self, config: StorageConfig) -> None:
        self.path = config.targets.sqlite_path()
        self.synchronous = config.sqlite_synchronous
        self.patience = lock_patience(config)
        self.seconds = config.command_timeout
        self.types = DeclaredTypes()
        self._config = config
        self._gate = gate_of(self.path)
        self.codec = Codec(
            engine="sqlite",
            encoders={
                "timestamp": codecs.timestamp_text,
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
                "json": codecs.stored_json,
                "bytes": codecs.stored_bytes,
            },
            shortcuts={
                "timestamp": ("{extra}({value} + 'Z')", datetime.fromisoformat),
                "bool": ("{value} != 0 if type({value}) is {extra} else {decode}({value})", int),
            },
        )

    def gate(self) -> WriterGate:
        return self._gate

    async def connect(self) -> SQLiteConnection:
        connection = SQLiteConnection(self)
        try:
            await connection.open()
        except (sqlite3.Error, OSError) as error:
            raise ConnectionLostError(f"{self.path} cannot be opened: {_reason(error)}") from error
        return connection

    def judge(self, error: Exception, query: CompiledQuery | None) -> Verdict:
        if not isinstance(error, sqlite3.Error):
            if type(error) is ValueError and str(error) in _CLOSED:
                return Verdict(lost_error(query, "it was closed"), lost=True)
            return Verdict(error)
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return Verdict(lost_error(query, "it was closed"), lost=True)
        code = getattr(error, "sqlite_errorcode", None)
        primary = primary_code(error)
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Verdict(
                retryable_error(
                    query,
                    f"the file stayed locked for busy_timeout={self._config.busy_timeout:g} s",
                )
            )
        if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return Verdict(execution_error(query, _reason(error), engine_code=code), lost=True)
        return Verdict(
            execution_error(
                query, _reason(error), sqlstate=_SQLSTATES.get(code or 0), engine_code=code
            )
        )


def _reason(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code in _SPEAKABLE:
        return str(error)
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
