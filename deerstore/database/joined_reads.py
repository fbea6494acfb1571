"""Readers that wait for a turn at one SQLite file, joined: one trip for all.

A reader that finds a turn free never comes here. For those who wait, SQLite's work is the smaller
part: the way between two threads and back costs more. The thread whose turn it is takes as many
of them as there are, one statement after the other, and their results travel together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from deerstore.database.engine import Connection, FileConnection, Result
from deerstore.errors import PoolTimeoutError
from deerstore.queries import CompiledQuery

if TYPE_CHECKING:
    from deerstore.database.calls import Connections

__all__ = ["JoinedRead", "JoinedReads", "ReadingTrip"]

_LONG = 0.005
"""Seconds after which the read that a trip has come to is taken for a long one."""


class JoinedRead:
    """One reader's statement, and where its result goes."""

    __slots__ = ("bound", "future", "gone", "query", "result", "rows", "trip")

    def __init__(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> None:
        self.query = query
        self.bound = bound
        self.rows = rows
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.gone = False
        self.trip: ReadingTrip | None = None
        self.result: Result | None = None

    @property
    def left(self) -> bool:
        """Whether nobody waits for it any more. May be asked from the connection's thread."""
        return self.gone or self.future.done()


class ReadingTrip:
    """What one trip has come to. The connection's thread writes it, the event loop reads it."""

    __slots__ = ("current", "done", "over", "stopped", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.current: JoinedRead | None = None
        """The read that was begun last."""
        self.done: deque[JoinedRead] = deque()
        self.stopped = False
        """Whether the caller of its current read has left, and it was cancelled for that."""
        self.over: asyncio.Future[None] = task.get_loop().create_future()
        """Done when it is over, and its connection in order."""

    @property
    def unfinished(self) -> JoinedRead | None:
        """The read that runs, or that ran when the trip failed."""
        return None if self.current is None or self.current.result is not None else self.current

    def begin(self, read: JoinedRead) -> bool:
        """Turn to a read. False when its caller has left.

        In this order: a caller that leaves either finds its read here, or is found to have left.
        """
        read.trip = self
        self.current = read
        if read.left:
            self.current = None
            return False
        return True

    def end(self, result: Result) -> None:
        """Note the result of the read that was begun."""
        assert self.current is not None
        self.current.result = result
        self.done.append(self.current)


class JoinedReads:
    """The readers of one database that wait."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[JoinedRead] = deque()
        """First come, first served. The connections' threads take from it, too."""
        self._sender: asyncio.Task[None] | None = None
        """Who takes those that come next."""
        self._entering = False
        """Whether the sender has no connection yet."""

    async def submit(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        """Run a statement together with the others that wait.

        Raises what it would raise alone.
        """
        pool = self._connections.reading.pool
        pool.check_usable()
        read = JoinedRead(query, bound, rows)
        self._waiting.append(read)
        self._start()
        timer = read.future.get_loop().call_later(pool.acquire_timeout, self._expire, read)
        try:
            return await read.future
        except asyncio.CancelledError:
            await self._leave(read)
            raise
        finally:
            read.gone = True
            timer.cancel()

    def _expire(self, read: JoinedRead) -> None:
        if self._take_back(read) and not read.left:
            pool = self._connections.reading.pool
            read.future.set_exception(pool.too_late(pool.acquire_timeout))

    async def _leave(self, read: JoinedRead) -> None:
        """What becomes of the read of a caller that was cancelled."""
        trip = read.trip
        if trip is None:
            self._take_back(read)
        elif trip.unfinished is read and not trip.over.done():
            trip.stopped = True
            trip.task.cancel()
            await asyncio.wait({trip.over})

    def _take_back(self, read: JoinedRead) -> bool:
        """Take a read out of the queue; False when it is not in it any more."""
        try:
            self._waiting.remove(read)
        except ValueError:
            return False
        if not self._waiting and self._entering and self._sender is not None:
            self._sender.cancel()
            self._sender = None
            self._entering = False
        return True

    def _start(self) -> None:
        if self._sender is None:
            self._sender = self._connections.start(self._send())

    async def _send(self) -> None:
        """Make trips until nobody waits, or until another has taken over."""
        lane = self._connections.reading
        task = asyncio.current_task()
        assert task is not None
        try:
            while self._waiting and self._sender is task:
                self._entering = True
                try:
                    connection = await self._connections.enter(lane, None)
                except PoolTimeoutError:
                    # Each reader has a clock of its own.
                    continue
                except Exception as error:  # noqa: BLE001 - it is the readers', who get it
                    self._refuse(error)
                    continue
                self._entering = False
                await self._travel(connection, ReadingTrip(task))
        finally:
            if self._sender is task:
                self._sender = None
                self._entering = False
                # There are none, unless everything is being cancelled.
                for read in self._waiting:
                    read.future.cancel()
                self._waiting.clear()

    def _refuse(self, error: Exception) -> None:
        """No connection: tell all who wait, each with an exception of its own."""
        while self._waiting:
            read = self._waiting.popleft()
            if read.left:
                continue
            meaning = copy(error)
            meaning.__cause__ = error.__cause__
            read.future.set_exception(meaning)

    async def _travel(self, connection: Connection, trip: ReadingTrip) -> None:
        assert isinstance(connection, FileConnection)
        lane = self._connections.reading
        held_up = asyncio.get_running_loop().call_later(_LONG, self._pass_by, trip)
        connection.deadline.start()
        try:
            await connection.run_reads(self._waiting, trip)
        except BaseException as error:
            if await self._fail(trip, connection, error):
                raise
            return
        finally:
            held_up.cancel()
            trip.over.set_result(None)
        connection.deadline.stop()
        lane.pool.release(connection)
        self._answer(trip)
        try:
            # The turn is kept until those who have their results have made their next calls: the
            # next trip takes them all.
            await asyncio.sleep(0)
        finally:
            lane.leave()

    def _pass_by(self, trip: ReadingTrip) -> None:
        """The trip has come to a long read: nobody else should wait for that."""
        self._answer(trip)
        if self._sender is trip.task:
            self._sender = None
            if self._waiting:
                self._start()

    async def _fail(self, trip: ReadingTrip, connection: Connection, error: BaseException) -> bool:
        """Tell what a failed trip means for the read it stopped at; the others that it finished
        have their results. True when the exception is for whoever cancels everything.
        """
        lane = self._connections.reading
        culprit = trip.unfinished
        query = None if culprit is None else culprit.query
        try:
            failure = await self._connections.recover(lane, connection, query, error)
        except asyncio.CancelledError:
            if culprit is not None and not trip.stopped:
                culprit.future.cancel()
            return not trip.stopped
        finally:
            self._answer(trip)
            if trip.stopped:
                trip.task.uncancel()
        read = trip.unfinished
        everything = not isinstance(failure.error, Exception) and not trip.stopped
        if read is None or read.left or isinstance(error, GeneratorExit):
            return everything
        if everything:
            read.future.cancel()
        elif trip.stopped or read is not culprit:
            # It was begun while the one before it was being stopped. Reading again does no harm.
            self._waiting.appendleft(read)
            self._start()
        else:
            read.future.set_exception(failure.error)
        return everything

    def _answer(self, trip: ReadingTrip) -> None:
        while trip.done:
            read = trip.done.popleft()
            if not read.left and read.result is not None:
                read.future.set_result(read.result)
