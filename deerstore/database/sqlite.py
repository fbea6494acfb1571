"""SQLite over aiosqlite: every call, a whole transaction included, is one trip to the thread.

An ``await`` on an aiosqlite cursor costs far more in travel between threads than SQLite needs for
its work, so that the steps of a call are run together on the connection's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

from deerstore.database import codecs
from deerstore.database.engine import Connection, Deadline, Engine, Result, Scope, Verdict
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
from deerstore.queries import Codec, CompiledQuery, CompiledStep

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["SQLiteConnection", "SQLiteEngine"]

_SLICE = 0.1
"""Seconds that SQLite itself waits for a lock: its own wait cannot be interrupted, so that a
longer one is made of slices, and a cancelled call ends after one of them."""

T = TypeVar("T")

_GUARD = "deerstore_guard"

_SQLSTATES = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_ROWID: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: FOREIGN_KEY_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_NOTNULL: NOT_NULL_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_CHECK: CHECK_VIOLATION,
}
# The messages of these speak of tables and columns, never of values.
_SPEAKABLE = frozenset(_SQLSTATES) | {sqlite3.SQLITE_ERROR}


class _Worker(aiosqlite.Connection):
    """aiosqlite's connection with its thread, and a way to run a whole unit on it."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # Until 0.21 the connection was the thread itself. A daemon: an unclosed connection must
        # not keep the interpreter from exiting.
        self.thread: Any = getattr(self, "_thread", self)
        self.thread.daemon = True

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._execute(function, *args)  # type: ignore[no-untyped-call]


class SQLiteConnection(Connection):
    """One connection and its thread."""

    def __init__(self, path: str, synchronous: str, patience: float, seconds: float | None) -> None:
        self.deadline = Deadline(seconds)
        self._path = path
        self._synchronous = synchronous
        self._patience = patience
        self._worker = _Worker(self._connect)
        self._raw: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._gone = False
        self._stopping = False
        """Set while a cancelled call is brought to its end: nothing new is begun for it."""

    async def open(self) -> None:
        """Start the thread, open the file, apply the settings: one trip."""
        try:
            await self._worker
        except BaseException:
            self.terminate()
            raise

    @property
    def closed(self) -> bool:
        return self._gone

    @property
    def in_transaction(self) -> bool:
        return self._raw is not None and not self._gone and self._raw.in_transaction

    async def run(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, *, rows: bool
    ) -> Result:
        result: Result = await self._worker.run(self._run, query, bound, scope, rows)
        return result

    async def run_many(
        self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope
    ) -> int:
        count: int = await self._worker.run(self._run_many, query, bound, scope)
        return count

    async def stream(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, batch: int
    ) -> AsyncGenerator[Result, None]:
        portion: Result = await self._worker.run(self._first, query, bound, batch)
        try:
            while portion.rows:
                yield portion
                portion = await self._worker.run(self._next, portion.names, batch)
        except GeneratorExit:
            await self._worker.run(self._close_cursor)
            raise
        # The end of the rows has closed the cursor; after a failure abandon() or rollback does.

    async def apply(
        self, work: Callable[[sqlite3.Connection], T], *, begin: str | None = None
    ) -> T:
        """Run code that speaks to the driver itself: one trip.

        With ``begin`` (``"read"`` or ``"write"``) in a transaction of its own, which is committed
        when the code returns.
        """
        raw = self._raw
        assert raw is not None

        def call() -> T:
            return work(raw)

        if begin is None:
            done: T = await self._worker.run(call)
        else:
            done = await self._worker.run(self._alone, call, begin == "write")
        return done

    async def begin(self, savepoints: Sequence[str]) -> None:
        await self._worker.run(self._begin, savepoints)

    async def commit(self) -> None:
        await self._worker.run(self._execute, "COMMIT")

    async def rollback(self) -> None:
        await self._worker.run(self._roll_back)

    async def release(self, savepoint: str) -> None:
        await self._worker.run(self._execute, f"RELEASE {savepoint}")

    async def rollback_to(self, savepoint: str) -> None:
        await self._worker.run(self._undo, savepoint)

    async def abandon(self) -> None:
        self._stopping = True
        settled = asyncio.ensure_future(self._worker.run(self._settle))
        while not settled.done():
            # An interrupt ends only what runs at that moment: repeat until the thread is free.
            if self._stopping and self._raw is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._raw.interrupt()
            await asyncio.wait({settled}, timeout=0.005)
        settled.result()

    async def check(self) -> None:
        await self._worker.run(self._execute, "SELECT 1")

    async def close(self) -> None:
        self._gone = True
        self.deadline.close()
        await self._worker.close()
        self._worker.thread.join()

    def terminate(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._stopping = True
        self.deadline.close()
        if self._raw is not None:
            with contextlib.suppress(sqlite3.Error):
                self._raw.interrupt()
        self._worker.stop()

    # -- on the connection's thread --------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        raw = sqlite3.connect(
            self._path,
            timeout=_SLICE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        self._raw = raw
        try:
            if self._execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                self._execute("PRAGMA journal_mode = WAL")
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
            raw.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            raw.close()
            raise
        if self._gone:
            raw.close()
        return raw

    def _execute(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        """One statement, waiting for other processes' locks as long as is configured.

        A statement that finds the file locked has done nothing yet and may be tried again.
        """
        assert self._raw is not None
        if self._stopping:
            raise sqlite3.OperationalError("interrupted")
        give_up: float | None = None
        while True:
            try:
                return self._raw.execute(sql, args)
            except sqlite3.OperationalError as error:
                if _primary(error) != sqlite3.SQLITE_BUSY or self._stopping:
                    raise
                now = time.monotonic()
                if give_up is None:
                    give_up = now + self._patience - _SLICE
                if now >= give_up:
                    raise

    def _begin(self, savepoints: Sequence[str], writing: bool = True) -> None:
        self._execute("BEGIN IMMEDIATE" if writing else "BEGIN")
        for savepoint in savepoints:
            self._execute(f"SAVEPOINT {savepoint}")

    def _run(self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, rows: bool) -> Result:
        steps = query.steps
        if scope.inside:
            self._enter(scope)
            if len(steps) == 1 and not steps[0].each:
                return self._step(steps[0], bound[0], rows)
            return self._guarded(scope, lambda: self._steps(query, bound, rows))
        if len(steps) == 1 and not steps[0].each:
            return self._step(steps[0], bound[0], rows)
        return self._alone(lambda: self._steps(query, bound, rows), query.writes)

    def _run_many(self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope) -> int:
        def work() -> int:
            step = query.steps[0]
            if len(query.steps) == 1 and not step.each and not step.returns_rows:
                return self._each(step, [args[0] for args in bound])
            return sum(self._steps(query, args, rows=False).count for args in bound)

        if not scope.inside:
            return self._alone(work, query.writes)
        self._enter(scope)
        return self._guarded(scope, work)

    def _enter(self, scope: Scope) -> None:
        if scope.begin:
            self._begin(scope.savepoints)
        else:
            for savepoint in scope.savepoints:
                self._execute(f"SAVEPOINT {savepoint}")

    def _alone(self, work: Callable[[], T], writing: bool) -> T:
        self._begin((), writing)
        try:
            result = work()
            self._execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return result

    def _guarded(self, scope: Scope, work: Callable[[], T]) -> T:
        if not scope.guarded:
            return work()
        self._execute(f"SAVEPOINT {_GUARD}")
        try:
            result = work()
        except BaseException:
            if self.in_transaction and not self._stopping:
                self._undo(_GUARD)
            raise
        self._execute(f"RELEASE {_GUARD}")
        return result

    def _steps(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        found: dict[str, Any] = {}
        result = Result((), 0, None)
        for number, step in enumerate(query.steps):
            args = step.fill(bound[number], found)
            if step.each:
                outcome = Result((), self._each(step, args), None)
            else:
                outcome = self._step(step, args, rows or bool(step.returns))
                if step.returns and outcome.rows:
                    found.update(zip(step.returns, outcome.rows[0], strict=False))
            if number == query.result_step:
                result = outcome
        return result

    def _step(self, step: CompiledStep, args: Sequence[Any], rows: bool) -> Result:
        cursor = self._execute(step.sql, args)
        if step.returns_rows:
            fetched = cursor.fetchall()
            names = tuple(column[0] for column in cursor.description) if rows else None
            return Result(fetched, len(fetched), names)
        return Result((), self._count(cursor), None)

    def _each(self, step: CompiledStep, args: Sequence[Sequence[Any]]) -> int:
        assert self._raw is not None
        if not args:
            return 0
        if self._stopping:
            raise sqlite3.OperationalError("interrupted")
        before = self._raw.total_changes
        cursor = self._raw.executemany(step.sql, args)
        return cursor.rowcount if cursor.rowcount >= 0 else self._raw.total_changes - before

    def _count(self, cursor: sqlite3.Cursor) -> int:
        if cursor.rowcount >= 0:
            return cursor.rowcount
        # Behind a WITH the driver does not recognise a write, and counts nothing.
        count: int = self._execute("SELECT changes()").fetchone()[0]
        return count

    def _first(self, query: CompiledQuery, bound: Sequence[Any], batch: int) -> Result:
        cursor = self._cursor = self._execute(query.steps[0].sql, bound[0])
        return self._next(tuple(column[0] for column in cursor.description), batch)

    def _next(self, names: tuple[str, ...], batch: int) -> Result:
        assert self._cursor is not None
        if self._stopping:
            raise sqlite3.OperationalError("interrupted")
        fetched = self._cursor.fetchmany(batch)
        if not fetched:
            self._close_cursor()
        return Result(fetched, len(fetched), names)

    def _close_cursor(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def _undo(self, savepoint: str) -> None:
        self._execute(f"ROLLBACK TO {savepoint}")
        self._execute(f"RELEASE {savepoint}")

    def _roll_back(self) -> None:
        self._close_cursor()
        if self._raw is not None and self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def _settle(self) -> None:
        # From here on the thread is free: no interrupt may reach the rollback.
        self._stopping = False
        try:
            self._roll_back()
        except sqlite3.OperationalError:
            self._roll_back()


class SQLiteEngine(Engine):
    """One file; readers beside one writer."""

    name = "sqlite"

    def __init__(self, config: StorageConfig) -> None:
        self.path = config.targets.sqlite_path()
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
        )

    def gate(self) -> WriterGate:
        return self._gate

    async def connect(self) -> SQLiteConnection:
        config = self._config
        connection = SQLiteConnection(
            self.path, config.sqlite_synchronous, config.busy_timeout, config.command_timeout
        )
        try:
            await connection.open()
        except (sqlite3.Error, OSError) as error:
            raise lost_error(None, f"{self.path} cannot be opened ({_reason(error)})") from error
        return connection

    def judge(self, error: Exception, query: CompiledQuery | None) -> Verdict:
        if not isinstance(error, sqlite3.Error):
            if isinstance(error, ValueError) and "closed" in str(error):
                return Verdict(lost_error(query, "it was closed"), lost=True)
            return Verdict(error)
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return Verdict(lost_error(query, "it was closed"), lost=True)
        code = getattr(error, "sqlite_errorcode", None)
        primary = _primary(error)
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


def _primary(error: sqlite3.Error) -> int:
    # The extended codes carry the primary one in their low byte.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _reason(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code in _SPEAKABLE:
        return str(error)
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
