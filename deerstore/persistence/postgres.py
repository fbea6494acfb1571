"""LangGraph on PostgreSQL: its own saver, over a pool with the facade's rules.

LangGraph's saver lets one call at a time pass, even over a pool. Here each call has a connection
of its own, which is checked when it lay idle, replaced when it is dead, and never given back in
the middle of something.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import select
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import DictRow, dict_row, tuple_row

from deerstore.database.failures import execution_error, lost_error, retryable_error, timeout_error
from deerstore.database.pool import Pool
from deerstore.database.retry import ATTEMPTS, pause
from deerstore.errors import ConfigError, RetryableError
from deerstore.persistence.calls import Calls
from deerstore.persistence.checkpointer import PortableSaver, PortableSerializer
from deerstore.persistence.store import PortableStore
from deerstore.schema.langgraph import Ledger, complete_postgres, run_migrations

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.database import Database

__all__ = ["PostgresCheckpointer", "PostgresLangGraph", "PostgresStore"]

T = TypeVar("T")

_CHECK_AFTER = 30.0
"""Seconds in the pool after which a connection is asked for an answer before it is used."""

_TRY_AGAIN = {"40001": "serialization failure", "40P01": "deadlock"}
_LOCK_NOT_AVAILABLE = "55P03"
_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
_SPEAKABLE = "42"
"""Syntax errors and unknown names: these messages never repeat a value."""


class _Link:
    """A psycopg connection as the pool wants it."""

    idle_since = 0.0

    def __init__(self, raw: psycopg.AsyncConnection[DictRow]) -> None:
        self.raw = raw

    @property
    def closed(self) -> bool:
        # Nobody speaks to an idle connection but a server that ends it.
        return self.raw.closed or bool(
            self.raw.info.transaction_status == TransactionStatus.IDLE and self._has_input()
        )

    @property
    def settled(self) -> bool:
        """Whether the connection may be given to somebody else."""
        return (
            not self.raw.closed
            and self.raw.info.transaction_status == TransactionStatus.IDLE
            # A call cancelled while it began to pipeline leaves the mode on.
            and self.raw.pgconn.pipeline_status == PipelineStatus.OFF
        )

    def _has_input(self) -> bool:
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    async def check(self) -> None:
        await self.raw.execute("SELECT 1")

    async def close(self) -> None:
        await self.raw.close()

    def terminate(self) -> None:
        self.raw.pgconn.finish()


def _without_casts(sql: str) -> str:
    # The cast reads a backslash in the name of a channel as an escape, and fails on it.
    return re.sub(r"([\w.]+(?:::text)?)::bytea", r"convert_to(\1, 'UTF8')", sql)


class _PooledSaver(AsyncPostgresSaver):
    """LangGraph's saver with a connection for each call."""

    SELECT_SQL = _without_casts(AsyncPostgresSaver.SELECT_SQL)
    SELECT_PENDING_SENDS_SQL = _without_casts(AsyncPostgresSaver.SELECT_PENDING_SENDS_SQL)

    _links: Pool[_Link]
    _seconds: float | None

    @asynccontextmanager
    async def _cursor(
        self, *, pipeline: bool = False
    ) -> AsyncIterator[psycopg.AsyncCursor[DictRow]]:
        async with _lent(self._links) as connection, contextlib.AsyncExitStack() as stack:
            # From here on: waiting for a connection has a limit of its own.
            await stack.enter_async_context(asyncio.timeout(self._seconds))
            if pipeline and self.supports_pipeline:
                await stack.enter_async_context(connection.pipeline())
            elif pipeline:
                await stack.enter_async_context(connection.transaction())
            yield await stack.enter_async_context(
                connection.cursor(binary=True, row_factory=dict_row)
            )


class PostgresCheckpointer(PortableSaver, _PooledSaver):
    """The checkpointer on PostgreSQL: an ``AsyncPostgresSaver`` over a pool."""

    keeps_apart = True

    def __init__(self, config: StorageConfig, links: Pool[_Link]) -> None:
        self._links = links
        self._location = config.location
        self._seconds = config.command_timeout
        super().__init__(cast("Any", None), serde=PortableSerializer())
        self._calls = Calls()
        self._tasks: set[asyncio.Task[Any]] = set()
        if config.pgbouncer:
            self.supports_pipeline = False

    async def setup(self) -> None:
        """LangGraph's tables. ``persistence.setup()`` does it under the lock of all setups."""
        await _make_tables(self._links, [_SAVER_LEDGER])

    async def _attempt(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        # Any call may be repeated: what it writes is the same again.
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._once(call())
            except RetryableError as error:
                if getattr(error.__cause__, "sqlstate", None) not in _TRY_AGAIN:
                    raise
            await pause(attempt)
        return await self._once(call())

    async def _once(self, call: Coroutine[Any, Any, T]) -> T:
        # In a task of its own, which is cancelled once: at a second cancellation psycopg would
        # close the connection and leave the statement to run on.
        task = asyncio.ensure_future(self._judge(call))
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller has it, or is gone: nothing to report that it was not looked at.
            task.exception()

    async def _judge(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        except TimeoutError as error:
            if type(error) is not TimeoutError:
                raise  # a PoolTimeoutError is one, too
            raise timeout_error(None, self._seconds) from error
        except psycopg.Error as error:
            raise _judged(error) from error


class PostgresStore(PortableStore, AsyncPostgresStore):
    """The Store on PostgreSQL: an ``AsyncPostgresStore`` over the facade."""

    def __init__(self, database: Database, links: Pool[_Link]) -> None:
        self._database = database
        self._links = links
        super().__init__(cast("Any", None))
        self._calls = Calls("store")

    async def setup(self) -> None:
        """LangGraph's table. ``persistence.setup()`` does it under the lock of all setups."""
        await _make_tables(self._links, [_STORE_LEDGER])


class PostgresLangGraph:
    """The checkpointer and the Store of a bundle on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        config = database.config
        self._links: Pool[_Link] = Pool(
            lambda: _connect(config),
            size=config.pool_size,
            acquire_timeout=config.acquire_timeout,
            check_after=_CHECK_AFTER,
        )
        self.checkpointer = PostgresCheckpointer(config, self._links)
        self.store = PostgresStore(database, self._links)

    async def setup(self) -> None:
        """LangGraph's tables."""
        await _make_tables(self._links, [_SAVER_LEDGER, _STORE_LEDGER])

    async def aclose(self, grace: float) -> None:
        """Let work in flight end, then close the checkpointer's connections."""
        await self._links.aclose(grace)


_SAVER_LEDGER = Ledger("checkpoint", AsyncPostgresSaver.MIGRATIONS)
_STORE_LEDGER = Ledger("store", AsyncPostgresStore.MIGRATIONS)


async def _connect(config: StorageConfig) -> _Link:
    try:
        raw = await psycopg.AsyncConnection.connect(
            config.targets.psycopg_conninfo(),
            autocommit=True,
            prepare_threshold=None if config.pgbouncer else 0,
            row_factory=dict_row,
        )
    except psycopg.Error as error:
        # The message may repeat the connection string's words, but never a password.
        state = error.sqlstate or ""
        if state.startswith("28") or state == "3D000":
            raise ConfigError(f"{config.location} refuses the login: {error}") from error
        raise lost_error(
            None, f"{config.location} cannot be reached ({type(error).__name__})"
        ) from error
    return _Link(raw)


@asynccontextmanager
async def _lent(links: Pool[_Link]) -> AsyncIterator[psycopg.AsyncConnection[DictRow]]:
    link = await links.acquire()
    try:
        yield link.raw
    except BaseException:
        if link.raw.closed:
            links.suspect()
        raise
    finally:
        if link.settled:
            links.release(link)
        else:
            links.discard(link)


async def _make_tables(links: Pool[_Link], ledgers: Sequence[Ledger]) -> None:
    async with _lent(links) as connection:

        async def execute(sql: str, args: Sequence[Any] | None) -> Sequence[Sequence[Any]]:
            # The raw cursor takes the server's own placeholders ($1) and leaves every % alone.
            async with psycopg.AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
                await cursor.execute(sql.encode(), args or None)
                return await cursor.fetchall() if cursor.description else []

        for ledger in ledgers:
            await run_migrations("postgres", execute, ledger, _is_done_already)
        await complete_postgres(execute)


def _is_done_already(error: Exception) -> bool:
    return isinstance(
        error,
        psycopg.errors.DuplicateTable
        | psycopg.errors.DuplicateColumn
        | psycopg.errors.DuplicateObject,
    )


def _judged(error: psycopg.Error) -> Exception:
    state = error.sqlstate
    if state is None or state.startswith(_LOST):
        return lost_error(None, type(error).__name__)
    if state in _TRY_AGAIN:
        return retryable_error(None, _TRY_AGAIN[state])
    if state == _LOCK_NOT_AVAILABLE:
        return retryable_error(None, "a lock was not given in time")
    reason = str(error) if state[:2] == _SPEAKABLE else type(error).__name__
    return execution_error(None, reason, sqlstate=state)
