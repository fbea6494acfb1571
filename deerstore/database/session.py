"""A session: one connection, and a transaction that begins with its first write."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from deerstore.database.calls import Connections, Lane, timed_portions
from deerstore.database.catalog import may_fail
from deerstore.database.engine import ALONE, Connection, Result, Scope
from deerstore.database.executor import Executor
from deerstore.database.failures import execution_error
from deerstore.database.savepoints import Savepoint, Savepoints
from deerstore.database.stream_in_use import StreamInUse
from deerstore.errors import (
    ConcurrentSessionUseError,
    ConnectionLostError,
    DeerstoreError,
    RetryableError,
)
from deerstore.queries import CompiledQuery

if TYPE_CHECKING:
    from deerstore.database.database import Database

__all__ = ["Session"]

T = TypeVar("T")

_log = logging.getLogger("deerstore.database")


class Session(Executor):
    """Several statements on one connection; used by one coroutine at a time.

    The connection is taken with the first statement and kept until the session is closed. Reads
    are single statements until the first write opens the transaction (READ COMMITTED; on SQLite
    the write lock is taken at once); from then on everything happens in it. Leaving without
    :meth:`commit` rolls back.

    A statement that fails leaves the transaction as it was before it. Three things end it as a
    whole: a :class:`~deerstore.errors.RetryableError`, a lost connection, and a statement that was
    cancelled or ran into ``command_timeout``. The session then refuses everything but
    :meth:`rollback`, so that half a unit is never committed by mistake.

    Verbs and methods also raise:
        ConcurrentSessionUseError: another coroutine is using the session at the moment.
    """

    def __init__(
        self, database: Database, connections: Connections, *, commit_at_exit: bool = False
    ) -> None:
        self.database = database
        self.repeatable = False
        """Whether the last failure was the engine asking for another try at once."""
        self._connections = connections
        self._commit_at_exit = commit_at_exit
        self._connection: Connection | None = None
        self._begun = False
        self._busy = False
        self._stream = StreamInUse()
        self._closed = False
        self._gate_held = False
        self._savepoints = Savepoints()
        self._refusal: str | None = None
        """Why the transaction is over although nobody ended it."""
        self._recoverable = False
        """Whether going back to a savepoint brings the transaction back to life."""

    # -- the block -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._commit_at_exit and kind is None and not self._closed:
                await self.commit()
        finally:
            await self.close()

    async def close(self) -> None:
        """Roll back what is not committed and give the connection back. May be called twice."""
        if self._closed:
            return
        await self._stream.settled()
        if self._busy:
            # The other coroutine's call gives the connection back when it ends.
            self._closed = True
            raise ConcurrentSessionUseError("closed while another coroutine was using the session")
        try:
            await self.rollback()
        finally:
            self._closed = True
            self._open_gate()
            connection, self._connection = self._connection, None
            if connection is not None:
                self._connections.reading.pool.release(connection)

    async def commit(self) -> None:
        """Make everything since the last commit last. The next write begins a new transaction.

        Raises:
            RetryableError: the engine gave the transaction up.
            ConnectionLostError: whether it was committed is not known.
        """
        await self._stream.settled()
        self._check()
        if self._savepoints:
            raise DeerstoreError("commit() inside begin_nested(): leave that block first")
        if self._begun:
            await self._end(lambda connection: connection.commit(), committing=True)

    async def rollback(self) -> None:
        """Undo everything since the last commit. The session can be used on."""
        await self._stream.settled()
        self._check_alone()
        self._refusal = None
        self._savepoints.mark(is_set=False)
        if self._begun:
            try:
                await self._end(lambda connection: connection.rollback())
            except ConnectionLostError as error:
                self._refusal = None
                _log.info("rolled back by the loss of the connection: %s", error)

    @asynccontextmanager
    async def begin_nested(self) -> AsyncIterator[Session]:
        """A savepoint: what is written in the block is undone when an exception leaves it."""
        await self._stream.settled()
        self._check()
        savepoint = self._savepoints.push()
        try:
            yield self
        except BaseException:
            await self._leave(savepoint, keep=False)
            raise
        await self._leave(savepoint, keep=True)

    def atomic(self) -> AbstractAsyncContextManager[Session]:
        """A savepoint: :meth:`begin_nested`."""
        return self.begin_nested()

    async def retrying(self, work: Callable[[Executor], Awaitable[T]]) -> T:
        """Run ``work`` once, in a savepoint: the transaction is the caller's to repeat."""
        async with self.begin_nested():
            return await work(self)

    @property
    def in_transaction(self) -> bool:
        """Whether something was written that is neither committed nor rolled back."""
        return self._begun

    # -- calls -----------------------------------------------------------------------------------

    async def _run(self, query: CompiledQuery, bound: Sequence[Any], *, rows: bool) -> Result:
        scope = self._scope(query)
        return await self._operate(
            query, scope, lambda connection: connection.run(query, bound, scope, rows=rows)
        )

    async def _run_many(self, query: CompiledQuery, bound: Sequence[Sequence[Any]]) -> int:
        scope = self._scope(query)
        return await self._operate(
            query, scope, lambda connection: connection.run_many(query, bound, scope)
        )

    async def _portions(
        self, query: CompiledQuery, bound: Sequence[Any], batch: int
    ) -> AsyncGenerator[Result, None]:
        await self._stream.settled()
        self._check()
        scope = self._scope(query)
        self._busy = True
        try:
            connection = await self._take(query, scope)
            try:
                async with aclosing(
                    timed_portions(connection, query, bound, scope, batch)
                ) as portions:
                    async for portion in portions:
                        with self._stream.at_its_reader():
                            yield portion
            except GeneratorExit:
                if connection.closed:
                    self._drop(connection)
                raise
            except BaseException as error:  # noqa: BLE001 - told apart in _fail
                await self._fail(connection, query, scope, error)
        finally:
            self._release_use()

    def _scope(self, query: CompiledQuery) -> Scope:
        if not self._begun and not query.writes:
            return ALONE
        return Scope(
            begin=not self._begun,
            inside=True,
            savepoints=self._savepoints.pending() if query.writes else (),
            guarded=may_fail(query),
        )

    async def _operate(
        self,
        query: CompiledQuery | None,
        scope: Scope,
        work: Callable[[Connection], Awaitable[T]],
    ) -> T:
        if self._busy:
            await self._stream.settled()
        self._check()
        self._busy = True
        try:
            connection = await self._take(query, scope)
            connection.deadline.start()
            try:
                result = await work(connection)
            except BaseException as error:  # noqa: BLE001 - told apart in _fail
                await self._fail(connection, query, scope, error)
            connection.deadline.stop()
            if scope.inside:
                self._inside(scope)
            return result
        finally:
            self._release_use()

    async def _end(
        self, work: Callable[[Connection], Awaitable[None]], *, committing: bool = False
    ) -> None:
        """Commit or roll back."""
        connection = self._connection
        assert connection is not None
        self._busy = True
        connection.deadline.start()
        try:
            await work(connection)
        except BaseException as error:  # noqa: BLE001 - told apart in _fail
            await self._fail(connection, None, ALONE, error, committing=committing)
        else:
            connection.deadline.stop()
            self._outside()
        finally:
            self._release_use()

    async def _leave(self, savepoint: Savepoint, *, keep: bool) -> None:
        """End a savepoint."""
        self._savepoints.drop(savepoint)
        if self._closed:
            return
        name, refusal = savepoint.name, self._refusal
        if refusal is not None and self._recoverable and savepoint.is_set:
            self._refusal = None
            await self._operate(None, ALONE, lambda connection: connection.rollback_to(name))
            if keep:
                raise execution_error(None, f"the savepoint was rolled back ({refusal})")
        elif keep:
            self._check()
            if savepoint.is_set:
                await self._operate(None, ALONE, lambda connection: connection.release(name))
        elif savepoint.is_set and refusal is None:
            await self._operate(None, ALONE, lambda connection: connection.rollback_to(name))

    # -- state -----------------------------------------------------------------------------------

    def _check_alone(self) -> None:
        if self._closed:
            raise DeerstoreError("the session is closed")
        if self._busy:
            raise ConcurrentSessionUseError(
                "two coroutines use one session at the same time; give each its own session"
            )

    def _check(self) -> None:
        self._check_alone()
        if self._refusal is not None:
            raise execution_error(
                None, f"the session's transaction is over ({self._refusal}); call rollback()"
            )

    async def _take(self, query: CompiledQuery | None, scope: Scope) -> Connection:
        connection = self._connection
        pool = self._connections.reading.pool
        if connection is not None and connection.closed and not self._begun:
            self._drop(connection)
            connection = None
        if connection is None:
            connection = self._connection = pool.take() or await pool.acquire()
        if scope.begin and self._connections.writing.gate is not None and not self._gate_held:
            await self._connections.wait_to_write(query)
            self._gate_held = True
        return connection

    def _inside(self, scope: Scope) -> None:
        self._begun = True
        if scope.savepoints:
            self._savepoints.mark(is_set=True)

    def _outside(self) -> None:
        self._begun = False
        self._savepoints.mark(is_set=False)
        self._open_gate()

    def _open_gate(self) -> None:
        if self._gate_held:
            self._gate_held = False
            self._connections.writing.leave()

    def _release_use(self) -> None:
        self._busy = False
        self._stream.ended()
        if self._closed and self._connection is not None:
            # Closed by another coroutine while this one was using it.
            connection, self._connection = self._connection, None
            self._connections.start_cleaning(self._lane(), connection)

    def _lane(self) -> Lane:
        """The connection's way back, together with the gate if it is held."""
        held, self._gate_held = self._gate_held, False
        return Lane(
            self._connections.reading.pool, self._connections.writing.gate if held else None
        )

    def _drop(self, connection: Connection) -> None:
        self._connection = None
        self._connections.reading.pool.discard(connection)

    def _refuse(self, reason: str, *, recoverable: bool = False) -> None:
        self._refusal = reason
        self._recoverable = recoverable

    async def _fail(
        self,
        connection: Connection,
        query: CompiledQuery | None,
        scope: Scope,
        error: BaseException,
        *,
        committing: bool = False,
    ) -> NoReturn:
        """Bring the session into a state that tells the truth, and raise what the error means."""
        if isinstance(error, GeneratorExit):
            self._forget(connection)
            raise error
        failure = self._connections.engine.diagnose(connection, query, error)
        self.repeatable = failure.repeatable
        if failure.stopped:
            if self._begun or scope.begin:
                self._refuse("a statement was cancelled or timed out")
            lane = self._lane()
            self._connection = None
            self._outside()
            await self._connections.clean(lane, connection, discard=committing)
            raise failure.error
        if failure.lost:
            if self._begun:
                self._refuse("the connection was lost")
            self._drop(connection)
            self._connections.reading.pool.suspect()
            self._outside()
            raise failure.error
        if not connection.in_transaction:
            # Not begun, or ended by the engine; a failed commit says so by itself.
            if self._begun and not committing:
                self._refuse("the engine rolled it back")
            self._outside()
            raise failure.error
        if scope.inside:
            self._inside(scope)
        if isinstance(failure.error, RetryableError):
            self._refuse("the engine gave it up")
            await self._undo(connection)
        elif scope.inside and not scope.guarded:
            self._refuse(f"{query.name if query else 'a command'} failed in it", recoverable=True)
        raise failure.error

    async def _undo(self, connection: Connection) -> None:
        """Roll back at once what is over: others wait for its locks."""
        try:
            await connection.rollback()
        except BaseException as error:
            self._connection = None
            self._connections.start_cleaning(self._lane(), connection, discard=True)
            if not isinstance(error, Exception):
                raise
        finally:
            self._outside()

    def _forget(self, connection: Connection) -> None:
        """Give up the connection: nobody can wait for anything any more."""
        self._closed = True
        self._connection = None
        self._connections.forget(self._lane(), connection)

    def __del__(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.reading.pool.abandon(connection)
            self._open_gate()
            # Last, since a warning may be an error.
            warnings.warn("a session was not closed", ResourceWarning, stacklevel=1)
