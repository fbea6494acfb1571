"""Writers that wait for one SQLite file, joined: one transaction, one commit, one trip for all.

A writer that finds the file free never comes here. Those that have to wait anyway are run together
when it is their turn: each as a unit of its own, whose failure leaves the others as they are, and
each is told of its success after the commit that they share.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any

from deerstore.database.catalog import is_own
from deerstore.database.engine import ALONE, Connection, Failure, FileConnection, Result
from deerstore.database.failures import timeout_error
from deerstore.errors import RetryableError
from deerstore.queries import CompiledQuery

if TYPE_CHECKING:
    from deerstore.database.calls import Connections

__all__ = ["JoinedWrite", "JoinedWrites", "may_join"]

_MOST = 64
"""Writers in one transaction: the first of them waits for the last."""


class JoinedWrite:
    """One writer's statement, and where its outcome goes."""

    __slots__ = ("bound", "future", "group", "query", "rows", "since")

    def __init__(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> None:
        loop = asyncio.get_running_loop()
        self.query = query
        self.bound = bound
        self.rows = rows
        self.since = loop.time()
        self.future: asyncio.Future[Result | Failure] = loop.create_future()
        self.group: asyncio.Future[None] | None = None

    @property
    def left(self) -> bool:
        """Whether its caller was cancelled. May be asked from the connection's thread."""
        return self.future.cancelled()


@cache
def may_join(query: CompiledQuery) -> bool:
    """Whether a statement may share a transaction.

    deerstore's own that insert and update: they are short, since they are bounded by what the
    caller hands over. A DELETE may take a thread's million events with it, and nobody should have
    to wait for somebody else's, or be stopped with it.
    """
    return is_own(query) and all(step.keyword != "DELETE" for step in query.steps)


class JoinedWrites:
    """The writers of one database that wait."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[JoinedWrite] = deque()
        self._running = False

    async def submit(
        self, query: CompiledQuery, bound: Sequence[Any], rows: bool
    ) -> Result | Failure:
        """Run a statement together with the others that wait."""
        write = JoinedWrite(query, bound, rows)
        self._waiting.append(write)
        if not self._running:
            self._running = True
            self._connections.start(self._run())
        try:
            return await write.future
        except asyncio.CancelledError:
            if write.group is not None:
                # What it did is undone, or was committed, when this is over.
                await asyncio.wait({write.group})
            raise

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._next_group()
        finally:
            self._running = False
            for write in self._waiting:
                write.future.cancel()
            self._waiting.clear()

    async def _next_group(self) -> None:
        lane = self._connections.writing
        try:
            connection = await self._connections.enter(lane, self._waiting[0].query)
        except Exception as error:  # noqa: BLE001 - it is the writers', who get it
            self._refuse(error)
            return
        writes = self._take()
        group = asyncio.get_running_loop().create_future()
        for write in writes:
            write.group = group
        try:
            await self._together(connection, writes)
        finally:
            group.set_result(None)

    def _take(self) -> list[JoinedWrite]:
        writes: list[JoinedWrite] = []
        while self._waiting and len(writes) < _MOST:
            write = self._waiting.popleft()
            if not write.left:
                writes.append(write)
        return writes

    async def _together(self, connection: Connection, writes: list[JoinedWrite]) -> None:
        lane = self._connections.writing
        outcomes: Sequence[Result | Exception] = ()
        connection.deadline.start()
        try:
            if len(writes) == 1:
                (only,) = writes
                outcomes = [await connection.run(only.query, only.bound, ALONE, rows=only.rows)]
            elif writes:
                assert isinstance(connection, FileConnection)
                outcomes = await connection.run_writes(writes)
        except BaseException as error:
            failure = await self._connections.recover(lane, connection, None, error)
            for write in writes:
                if not write.left:
                    self._fail(write, error, failure)
            if not isinstance(error, Exception) and failure.error is error:
                raise
            return
        connection.deadline.stop()
        lane.pool.release(connection)
        lane.leave()
        for write, outcome in zip(writes, outcomes, strict=True):
            if write.left:
                continue
            if isinstance(outcome, Result):
                write.future.set_result(outcome)
            else:
                self._fail(write, outcome, None)

    def _fail(self, write: JoinedWrite, error: BaseException, failure: Failure | None) -> None:
        """Tell a writer what an exception means for it. ``failure``: what it was for the group."""
        if not isinstance(error, Exception):
            if failure is not None and failure.error is not error:
                late = timeout_error(write.query, self._connections.seconds)
                late.__cause__ = TimeoutError()
                write.future.set_result(Failure(late))
            else:
                write.future.cancel()
            return
        verdict = self._connections.engine.judge(error, write.query)
        # Each writer raises an exception of its own.
        meaning = copy(error) if verdict.error is error else verdict.error
        meaning.__cause__ = error
        write.future.set_result(Failure(meaning, repeatable=verdict.repeatable))

    def _refuse(self, error: Exception) -> None:
        """No connection, or the gate stayed shut: tell those who have waited long enough."""
        latest = asyncio.get_running_loop().time() - self._connections.patience * 0.99
        while self._waiting and (
            not isinstance(error, RetryableError) or self._waiting[0].since <= latest
        ):
            write = self._waiting.popleft()
            if write.left:
                continue
            meaning: Exception = copy(error)
            if isinstance(error, RetryableError):
                meaning = self._connections.gate_stayed_shut(write.query)
            meaning.__cause__ = error.__cause__
            write.future.set_result(Failure(meaning))
