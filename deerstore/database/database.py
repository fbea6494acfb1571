"""The database: single statements, and the sessions that own a connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self, TypeVar

from deerstore.database.calls import Connections, Lane, timed_portions
from deerstore.database.catalog import deerstore_queries
from deerstore.database.engine import (
    ALONE,
    Connection,
    Engine,
    Failure,
    FileConnection,
    Result,
    RunQuery,
)
from deerstore.database.executor import Executor, log_sql
from deerstore.database.joined_writes import may_join
from deerstore.database.pool import Pool
from deerstore.database.retry import ATTEMPTS, pause
from deerstore.database.session import Session
from deerstore.database.units import Unit, check_reading, run_through
from deerstore.errors import MissingExtraError, RetryableError
from deerstore.queries import CompiledQuery, Query

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["Database"]

T = TypeVar("T")


class Database(Executor):
    """The connection facade over the three drivers.

    Each verb is one statement on a connection of its own, committed at once and one trip to the
    database; after a deadlock it is tried again. :meth:`session` and :meth:`transaction` give
    several statements one connection.

    A database belongs to the event loop that first uses it. Connections are made when they are
    needed, at most ``pool_size`` of them (on SQLite one more, for single writes).

    Raises:
        MissingExtraError: the engine's packages are not installed.
    """

    def __init__(self, config: StorageConfig) -> None:
        self.config = config
        self._connections = Connections(_engine(config), config)
        deerstore_queries().load(self.engine)

    @classmethod
    async def open(cls, config: StorageConfig) -> Database:
        """A database that has been reached once.

        Raises:
            ConfigError: the login is refused, or the database does not exist.
            ConnectionLostError: the server cannot be reached.
        """
        database = cls(config)
        try:
            database.pool.release(await database.pool.acquire())
        except BaseException:
            await database.aclose()
            raise
        return database

    @property
    def engine(self) -> str:
        """``sqlite``, ``postgres`` or ``mysql``."""
        return self._connections.engine.name

    @property
    def pool(self) -> Pool[Connection]:
        """The connections, for their figures: ``size``, ``in_use``, ``idle``, ``waiting``."""
        return self._connections.reading.pool

    def session(self) -> Session:
        """A session: ``async with database.session() as session``. Nothing lasts without commit."""
        return Session(self, self._connections)

    def transaction(self) -> Session:
        """A session that commits when its block ends, and rolls back when an exception ends it."""
        return Session(self, self._connections, commit_at_exit=True)

    def atomic(self) -> Session:
        """A transaction of its own: :meth:`transaction`."""
        return self.transaction()

    async def retrying(self, work: Callable[[Executor], Awaitable[T]]) -> T:
        """Run ``work`` in a transaction, and again when the engine gives it up.

        At most eight times, with a random pause after each deadlock or serialization failure. What
        waited for a lock as long as is configured is not repeated.
        """
        for attempt in range(1, ATTEMPTS):
            session = self.transaction()
            try:
                async with session:
                    return await work(session)
            except RetryableError:
                if not session.repeatable:
                    raise
            await pause(attempt)
        async with self.transaction() as session:
            return await work(session)

    async def unit(self, work: Callable[[], Unit[T]], *, writes: bool = True) -> T:
        """Run a unit of several queries; on SQLite in one trip."""
        if not self._connections.engine.in_file:
            return await super().unit(work, writes=writes)
        wanted: CompiledQuery | None = None

        def through(run: RunQuery) -> T:
            def ask(query: Query, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
                nonlocal wanted
                wanted = query.compiled(self._connections.engine.codec)
                if not writes:
                    check_reading(wanted)
                bound = wanted.bind(params)
                if self._connections.echo:
                    log_sql(wanted)
                return self._typed(wanted, run(wanted, bound))

            return run_through(work(), ask)

        async def go(connection: Connection) -> T:
            assert isinstance(connection, FileConnection)
            return await connection.run_unit(through, writes=writes)

        return _given(await self._on_connection(go, writes=writes, query=lambda: wanted))

    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, writes: bool) -> T:
        """Run code that needs a connection itself, under the rules that hold for a statement.

        It is given a connection of the pool, waits with the other writers when it ``writes``, is
        bounded by ``command_timeout``, and may be cancelled. What it does has to be one unit: the
        connection must be out of any transaction when it returns.
        """
        return _given(await self._on_connection(work, writes=writes, query=lambda: None))

    async def aclose(self) -> None:
        """Let work in flight finish for a bounded time, then close everything.

        May be called twice. Calls that come later are refused.
        """
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- inside ----------------------------------------------------------------------------------

    async def _run(self, query: CompiledQuery, bound: Sequence[Any], *, rows: bool) -> Result:
        outcome = await self._once(query, bound, rows)
        if isinstance(outcome, Result):
            return outcome
        return await self._again(outcome, lambda: self._once(query, bound, rows))

    async def _run_many(self, query: CompiledQuery, bound: Sequence[Sequence[Any]]) -> int:
        async def run(connection: Connection) -> Result:
            return Result((), await connection.run_many(query, bound, ALONE), None)

        async def once() -> Result | Failure:
            return await self._on_connection(run, writes=query.writes, query=lambda: query)

        outcome = await once()
        if isinstance(outcome, Result):
            return outcome.count
        return (await self._again(outcome, once)).count

    async def _portions(
        self, query: CompiledQuery, bound: Sequence[Any], batch: int
    ) -> AsyncGenerator[Result, None]:
        lane = self._connections.streaming
        connection = await self._connections.enter(lane, query)
        try:
            async with aclosing(timed_portions(connection, query, bound, ALONE, batch)) as portions:
                async for portion in portions:
                    yield portion
        except GeneratorExit:
            lane.pool.release(connection)
            raise
        except BaseException as error:
            # Rows were given out already: no second try.
            raise (await self._failed(lane, connection, query, error)).error from error
        lane.pool.release(connection)

    async def _once(
        self, query: CompiledQuery, bound: Sequence[Any], rows: bool
    ) -> Result | Failure:
        lane = self._connections.writing if query.writes else self._connections.reading
        gate = lane.gate
        if gate is not None and not gate.take():
            if may_join(query):
                outcome = await self._connections.joined_writes.submit(query, bound, rows)
                if isinstance(outcome, Failure) and not outcome.repeatable:
                    raise outcome.error
                return outcome
            await self._connections.wait_to_write(query)
        turns = lane.turns
        if turns is not None and not turns.take():
            return await self._connections.joined_reads.submit(query, bound, rows)
        try:
            connection = lane.pool.take() or await lane.pool.acquire()
        except BaseException:
            lane.leave()
            raise
        connection.deadline.start()
        try:
            result = await connection.run(query, bound, ALONE, rows=rows)
        except BaseException as error:  # noqa: BLE001 - told apart in _failed
            return await self._failed(lane, connection, query, error)
        connection.deadline.stop()
        lane.pool.release(connection)
        if gate is not None:
            gate.release()
        if turns is not None:
            turns.release()
        return result

    async def _on_connection(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        writes: bool,
        query: Callable[[], CompiledQuery | None],
    ) -> T | Failure:
        """``work`` on a connection of its own; ``query`` says what it has asked for last.

        A failure is given back when another try may help, else it is raised.
        """
        lane = self._connections.writing if writes else self._connections.reading
        connection = await self._connections.enter(lane, query())
        connection.deadline.start()
        try:
            result = await work(connection)
        except BaseException as error:  # noqa: BLE001 - told apart in _failed
            return await self._failed(lane, connection, query(), error)
        connection.deadline.stop()
        lane.pool.release(connection)
        lane.leave()
        return result

    async def _failed(
        self,
        lane: Lane,
        connection: Connection,
        query: CompiledQuery | None,
        error: BaseException,
    ) -> Failure:
        """Put the connection in order. Raises the error, unless another try may help."""
        failure = await self._connections.recover(lane, connection, query, error)
        if failure.repeatable:
            return failure
        raise failure.error

    async def _again(
        self, failure: Failure, once: Callable[[], Awaitable[Result | Failure]]
    ) -> Result:
        for attempt in range(1, ATTEMPTS):
            await pause(attempt)
            outcome = await once()
            if isinstance(outcome, Result):
                return outcome
            failure = outcome
        raise failure.error


def _given(outcome: T | Failure) -> T:
    if isinstance(outcome, Failure):
        raise outcome.error from outcome.error.__cause__
    return outcome


def _engine(config: StorageConfig) -> Engine:
    try:
        if config.driver == "sqlite":
            from deerstore.database.sqlite import SQLiteEngine

            return SQLiteEngine(config)
        if config.driver == "postgres":
            from deerstore.database.postgres import PostgresEngine

            return PostgresEngine(config)
        from deerstore.database.mysql import MySQLEngine

        return MySQLEngine(config)
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "deerstore"):
            raise
        raise MissingExtraError(config.driver, package=name) from error
