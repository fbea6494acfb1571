"""What runs on the thread of an SQLite connection: plain sqlite3, one unit at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from deerstore.database.engine import ALONE, Result, RunQuery, Scope
from deerstore.database.sqlite_types import DeclaredTypes
from deerstore.database.undeclared import Kinds
from deerstore.queries import CompiledQuery, CompiledStep

if TYPE_CHECKING:
    from deerstore.database.joined_reads import JoinedRead, ReadingTrip
    from deerstore.database.joined_writes import JoinedWrite

__all__ = ["ThreadSide", "primary_code"]

T = TypeVar("T")

_SLICE = 0.1
"""Seconds that SQLite itself waits for a lock: its own wait cannot be interrupted, so that a
longer one is made of slices, and a cancelled call ends after one of them."""

_CACHE_KIB = 8_000
"""Pages that a connection keeps, at most. SQLite's own 2,000 do not hold what the search of a
million threads looks at."""

_MOST_READS = 32
_SHARE = 0.002
"""How many readers one trip may take, and for how many seconds it goes on taking them: the first
of them waits for the last."""

_GUARD = "deerstore_guard"


class ThreadSide:
    """The connection as its thread sees it. Every method but ``interrupt`` runs there."""

    def __init__(self, path: str, synchronous: str, patience: float, types: DeclaredTypes) -> None:
        self.raw: sqlite3.Connection | None = None
        self.stopping = False
        """Set while a cancelled call is brought to its end: nothing new is begun for it."""
        self.gone = False
        """Set when nobody waits for the connection any more."""
        self._path = path
        self._synchronous = synchronous
        self._patience = patience
        self._types = types
        self._cursor: sqlite3.Cursor | None = None
        self._reader: JoinedRead | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.raw is not None and not self.gone and self.raw.in_transaction

    @property
    def _is_unwanted(self) -> bool:
        """Whether nobody waits for what runs."""
        return self.stopping or (self._reader is not None and self._reader.left)

    def interrupt(self) -> None:
        """End the statement that runs at this moment, if any. Called from the event loop."""
        if self.raw is not None:
            with contextlib.suppress(sqlite3.Error):
                self.raw.interrupt()

    def connect(self) -> sqlite3.Connection:
        """Open the file and apply the settings."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        raw = sqlite3.connect(
            self._path,
            timeout=_SLICE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        self.raw = raw
        try:
            if self.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                self.execute("PRAGMA journal_mode = WAL")
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
            raw.execute("PRAGMA foreign_keys = ON")
            raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        except BaseException:
            raw.close()
            raise
        if self.gone:
            raw.close()
        return raw

    def execute(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        """One statement, waiting for other processes' locks as long as is configured.

        A statement that finds the file locked has done nothing yet and may be tried again.
        """
        assert self.raw is not None
        if self.stopping:
            raise sqlite3.OperationalError("interrupted")
        give_up: float | None = None
        while True:
            try:
                return self.raw.execute(sql, args)
            except sqlite3.OperationalError as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY or self._is_unwanted:
                    raise
                now = time.monotonic()
                if give_up is None:
                    give_up = now + self._patience - _SLICE
                if now >= give_up:
                    raise

    def begin(self, savepoints: Sequence[str], *, writing: bool = True) -> None:
        """Open a transaction. One that will write takes the lock at once, so that it never fails
        because somebody else wrote after it read.
        """
        self.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
        for savepoint in savepoints:
            self.execute(f"SAVEPOINT {savepoint}")

    def run(self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, rows: bool) -> Result:
        """A query of one or several steps."""
        steps = query.steps
        if scope.inside:
            self._enter(scope)
            if len(steps) == 1 and not steps[0].each:
                return self._step(steps[0], bound[0], rows and query.columns is None)
            return self._guarded(scope, lambda: self._steps(query, bound, rows))
        if len(steps) == 1 and not steps[0].each:
            return self._step(steps[0], bound[0], rows and query.columns is None)
        return self.alone(lambda: self._steps(query, bound, rows), query.writes)

    def run_writes(self, writes: Sequence[JoinedWrite]) -> list[Result | Exception]:
        """The statements of several writers in one transaction, each a unit of its own."""
        return self.alone(lambda: [self._one_of_many(write) for write in writes], writing=True)

    def _one_of_many(self, write: JoinedWrite) -> Result | Exception:
        if write.left:
            return Result((), 0, None)
        steps = write.query.steps
        if len(steps) == 1 and not steps[0].each:
            # A single statement cannot half-fail.
            try:
                return self._steps(write.query, write.bound, write.rows)
            except sqlite3.Error as error:
                if not self.in_transaction or self.stopping:
                    raise
                return error
        self.execute(f"SAVEPOINT {_GUARD}")
        try:
            result: Result | Exception = self._steps(write.query, write.bound, write.rows)
        except sqlite3.Error as error:
            if not self.in_transaction or self.stopping:
                raise
            result = error
        if write.left or not isinstance(result, Result):
            self.undo(_GUARD)
        else:
            self.execute(f"RELEASE {_GUARD}")
        return result

    def run_reads(self, waiting: deque[JoinedRead], trip: ReadingTrip) -> None:
        """The statements of readers that wait, each by itself."""
        until = time.monotonic() + _SHARE
        for _ in range(_MOST_READS):
            if self.stopping:
                return
            try:
                read = waiting.popleft()
            except IndexError:
                return
            if trip.begin(read):
                self._reader = read
                trip.end(read, self._read(read))
                self._reader = None
            if time.monotonic() >= until:
                return

    def _read(self, read: JoinedRead) -> Result | BaseException:
        while True:
            try:
                return self.run(read.query, read.bound, ALONE, read.rows)
            except BaseException as error:  # noqa: BLE001 - it is the reader's, who gets it
                self._roll_back_for_sure()
                interrupted = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT
                if not interrupted or self._is_unwanted:
                    return error
                # It was meant for the one before, whose caller had left.

    def run_unit(self, through: Callable[[RunQuery], T], writes: bool) -> T:
        """Several queries with Python between them."""

        def run(query: CompiledQuery, bound: Sequence[Any]) -> Result:
            return self._steps(query, bound, rows=True)

        if not writes:
            return through(run)
        return self.alone(lambda: through(run), writing=True)

    def run_many(self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope) -> int:
        """A query once per set of arguments, all or nothing."""

        def work() -> int:
            step = query.steps[0]
            if len(query.steps) == 1 and not step.each and not step.returns_rows:
                return self._each(step, [args[0] for args in bound])
            return sum(self._steps(query, args, rows=False).count for args in bound)

        if not scope.inside:
            return self.alone(work, query.writes)
        self._enter(scope)
        return self._guarded(scope, work)

    def _enter(self, scope: Scope) -> None:
        if scope.begin:
            self.begin(scope.savepoints)
        else:
            for savepoint in scope.savepoints:
                self.execute(f"SAVEPOINT {savepoint}")

    def alone(self, work: Callable[[], T], writing: bool) -> T:
        """``work`` in a transaction of its own."""
        self.begin((), writing=writing)
        try:
            result = work()
            self.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise
        return result

    def _guarded(self, scope: Scope, work: Callable[[], T]) -> T:
        if not scope.guarded:
            return work()
        self.execute(f"SAVEPOINT {_GUARD}")
        try:
            result = work()
        except BaseException:
            if self.in_transaction and not self.stopping:
                self.undo(_GUARD)
            raise
        self.execute(f"RELEASE {_GUARD}")
        return result

    def _steps(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        found: dict[str, Any] = {}
        result = Result((), 0, None)
        for number, step in enumerate(query.steps):
            args = step.fill(bound[number], found)
            if step.each:
                outcome = Result((), self._each(step, args), None)
            else:
                named = rows and query.columns is None and number == query.result_step
                outcome = self._step(step, args, named)
                if step.returns and outcome.rows:
                    found.update(zip(step.returns, outcome.rows[0], strict=False))
            if number == query.result_step:
                result = outcome
        return result

    def _step(self, step: CompiledStep, args: Sequence[Any], named: bool) -> Result:
        cursor = self.execute(step.sql, args)
        if step.returns_rows:
            fetched = cursor.fetchall()
            if not named:
                return Result(fetched, len(fetched), None)
            return Result(fetched, len(fetched), *self._columns(step, cursor))
        return Result((), self._count(cursor), None)

    def _columns(self, step: CompiledStep, cursor: sqlite3.Cursor) -> tuple[tuple[str, ...], Kinds]:
        assert self.raw is not None
        names = tuple(column[0] for column in cursor.description or ())
        return names, self._types.of(self.raw, step, names)

    def _each(self, step: CompiledStep, args: Sequence[Sequence[Any]]) -> int:
        assert self.raw is not None
        if not args:
            return 0
        if self.stopping:
            raise sqlite3.OperationalError("interrupted")
        before = self.raw.total_changes
        cursor = self.raw.executemany(step.sql, args)
        return cursor.rowcount if cursor.rowcount >= 0 else self.raw.total_changes - before

    def _count(self, cursor: sqlite3.Cursor) -> int:
        if cursor.rowcount >= 0:
            return cursor.rowcount
        # Behind a WITH the driver does not recognise a write, and counts nothing.
        count: int = self.execute("SELECT changes()").fetchone()[0]
        return count

    def first(self, query: CompiledQuery, bound: Sequence[Any], batch: int) -> Result:
        """Begin to read rows in portions; the first one."""
        step = query.steps[0]
        cursor = self._cursor = self.execute(step.sql, bound[0])
        names, kinds = (None, ()) if query.columns else self._columns(step, cursor)
        return self.next(Result((), 0, names, kinds), batch)

    def next(self, before: Result, batch: int) -> Result:
        """The next portion; an empty one is the end."""
        assert self._cursor is not None
        if self.stopping:
            raise sqlite3.OperationalError("interrupted")
        fetched = self._cursor.fetchmany(batch)
        if not fetched:
            self.close_cursor()
        return Result(fetched, len(fetched), before.names, before.kinds)

    def close_cursor(self) -> None:
        """Read no further."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def undo(self, savepoint: str) -> None:
        """Undo what was done since the savepoint, and drop it."""
        self.execute(f"ROLLBACK TO {savepoint}")
        self.execute(f"RELEASE {savepoint}")

    def roll_back(self) -> None:
        """Roll back whatever is open."""
        self.close_cursor()
        if self.raw is not None and self.raw.in_transaction:
            self.raw.execute("ROLLBACK")

    def settle(self) -> None:
        """Bring a cancelled call to its end."""
        # From here on the thread is free: no interrupt may reach the rollback.
        self.stopping = False
        self._roll_back_for_sure()

    def _roll_back_for_sure(self) -> None:
        try:
            self.roll_back()
        except sqlite3.OperationalError:
            # An interrupt that was meant for the statement before.
            self.roll_back()


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension, which is in the low byte."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
