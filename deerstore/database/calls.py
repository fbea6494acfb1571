"""The connections of a database, and what becomes of one whose call failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from deerstore.database.engine import Connection, Engine, Failure, Result, Scope, lock_patience
from deerstore.database.failures import retryable_error
from deerstore.database.gate import WriterGate
from deerstore.database.joined_reads import JoinedReads
from deerstore.database.joined_writes import JoinedWrites
from deerstore.database.pool import Pool
from deerstore.database.turns import Turns
from deerstore.errors import RetryableError
from deerstore.queries import CompiledQuery

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["Connections", "Lane", "timed_portions"]

_log = logging.getLogger("deerstore.database")

_CHECK_AFTER = 30.0
"""Seconds in the pool after which a connection is checked before it is used again."""

_GRACE = 10.0
"""Seconds that closing leaves to work in flight."""

_SETTLE_SECONDS = 3.0
"""How long a cancelled statement may take to end on the server before its connection is cut."""


class Lane(NamedTuple):
    """Where connections come from, and the queue in front of it."""

    pool: Pool[Connection]
    gate: WriterGate | None = None
    turns: Turns | None = None

    def leave(self) -> None:
        """Let the next one in."""
        if self.gate is not None:
            self.gate.release()
        if self.turns is not None:
            self.turns.release()


class Connections:
    """The connections of one database, as its verbs and its sessions share them."""

    def __init__(self, engine: Engine, config: StorageConfig) -> None:
        self.engine = engine
        self.echo = config.echo_sql
        self.patience = lock_patience(config)
        self.seconds = config.command_timeout
        self.streaming = Lane(self._pool(engine, config, config.pool_size))
        """Where rows come from as they are asked for."""
        self.reading = self.writing = self.streaming
        """Where single reads and single writes go."""
        if engine.reads_at_a_time is not None:
            self.reading = self.streaming._replace(turns=Turns(engine.reads_at_a_time))
        gate = engine.gate()
        if gate is not None:
            self.writing = Lane(self._pool(engine, config, 1), gate)
        self.joined_writes = JoinedWrites(self)
        """Single writes that have to wait for the gate."""
        self.joined_reads = JoinedReads(self)
        """Single reads that have to wait for a turn."""
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    def _pool(engine: Engine, config: StorageConfig, size: int) -> Pool[Connection]:
        return Pool(
            engine.connect,
            size=size,
            acquire_timeout=config.acquire_timeout,
            check_after=_CHECK_AFTER,
        )

    async def wait_to_write(self, query: CompiledQuery | None) -> None:
        """Take the gate, in turn. Raises RetryableError after ``busy_timeout``."""
        gate = self.writing.gate
        if gate is None or gate.take():
            return
        try:
            await gate.acquire(self.patience)
        except TimeoutError as error:
            raise self.gate_stayed_shut(query) from error

    def gate_stayed_shut(self, query: CompiledQuery | None) -> RetryableError:
        """What a writer is told that waited in vain."""
        return retryable_error(query, f"another writer kept the file for {self.patience:g} s")

    async def enter(self, lane: Lane, query: CompiledQuery | None) -> Connection:
        """A connection of a lane, after its gate."""
        if lane.gate is not None:
            await self.wait_to_write(query)
        if lane.turns is not None:
            lane.pool.check_usable()
            await lane.turns.acquire()
        try:
            return lane.pool.take() or await lane.pool.acquire()
        except BaseException:
            lane.leave()
            raise

    async def clean(self, lane: Lane, connection: Connection, *, discard: bool = False) -> None:
        """Stop the statement, roll back, give the connection (and the gate) back.

        Goes on when the caller is cancelled once more.
        """
        await asyncio.shield(self.start_cleaning(lane, connection, discard=discard))

    def forget(self, lane: Lane, connection: Connection) -> None:
        """Give up the connection of a coroutine that is destroyed and cannot wait any more."""
        turns = [] if lane.turns is None else [lane.turns.release]
        if lane.pool.abandon(connection, *turns) and lane.gate is not None:
            lane.gate.release()

    def start_cleaning(
        self, lane: Lane, connection: Connection, *, discard: bool = False
    ) -> asyncio.Task[None]:
        """The same, without waiting."""
        return self.start(_settle(lane, connection, discard))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the calls; closing lets it end."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def recover(
        self,
        lane: Lane,
        connection: Connection,
        query: CompiledQuery | None,
        error: BaseException,
    ) -> Failure:
        """Put the connection of a failed call in order, give it and the gate back."""
        if isinstance(error, GeneratorExit):
            self.forget(lane, connection)
            return Failure(error, stopped=True)
        failure = self.engine.diagnose(connection, query, error)
        if failure.stopped or connection.in_transaction:
            await self.clean(lane, connection)
            return failure._replace(repeatable=False)
        if failure.lost:
            lane.pool.discard(connection)
            lane.pool.suspect()
        else:
            lane.pool.release(connection)
        lane.leave()
        return failure

    async def aclose(self) -> None:
        """Let work in flight finish for a bounded time, then close everything."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_SETTLE_SECONDS)
        try:
            await self.reading.pool.aclose(_GRACE)
        finally:
            await self.joined_reads.aclose()
            if self.writing.pool is not self.reading.pool:
                await self.writing.pool.aclose(_GRACE)


async def timed_portions(
    connection: Connection, query: CompiledQuery, bound: Sequence[Any], scope: Scope, batch: int
) -> AsyncGenerator[Result, None]:
    """The portions of a stream, each of which has to arrive within the deadline."""
    async with aclosing(connection.stream(query, bound, scope, batch)) as portions:
        while True:
            connection.deadline.start()
            try:
                portion = await anext(portions)
            except StopAsyncIteration:
                connection.deadline.stop()
                return
            connection.deadline.stop()
            yield portion


async def _settle(lane: Lane, connection: Connection, discard: bool) -> None:
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            await connection.abandon()
        if discard:
            connection.terminate()
    except Exception as error:  # noqa: BLE001 - a connection that resists is closed
        _log.warning("a connection is closed after a cancelled call: %s", type(error).__name__)
        connection.terminate()
    except BaseException:
        connection.terminate()
        raise
    finally:
        lane.pool.release(connection)
        lane.leave()
