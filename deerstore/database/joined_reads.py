"""Readers that wait for a turn at one SQLite file, joined: one trip for all.

A reader that finds a turn free never comes here. For those who wait, SQLite's work is the smaller
part: the way between two threads and back costs more. The thread whose turn it is takes as many
of them as there are, one statement after the other, and their results travel together.

A trip belongs to no task, so nobody can cancel it, and what befalls one reader is nobody else's
affair. A caller that leaves has its own statement interrupted; the thread goes on to the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from deerstore.database.engine import FileConnection, Result
from deerstore.database.failures import timeout_error
from deerstore.errors import PoolTimeoutError
from deerstore.queries import CompiledQuery

if TYPE_CHECKING:
    from deerstore.database.calls import Connections

__all__ = ["JoinedRead", "JoinedReads", "ReadingTrip"]

_log = logging.getLogger("deerstore.database")

_LONG = 0.005
"""Seconds after which the read that a trip has come to is taken for a long one, and between two
looks at such a trip."""
_AGAIN = 0.002
"""Seconds between two interrupts of one statement: each ends only what runs at that moment."""
_PATIENCE = 3.0
"""Seconds after which a connection is given up whose statement no interrupt can end."""


class JoinedRead:
    """One reader's statement, and where its result goes."""

    __slots__ = ("begun", "bound", "future", "gone", "outcome", "query", "rows", "trip")

    def __init__(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> None:
        self.query = query
        self.bound = bound
        self.rows = rows
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.gone = False
        self.begun = 0.0
        self.trip: ReadingTrip | None = None
        """The trip that has taken it."""
        self.outcome: Result | BaseException | None = None

    @property
    def left(self) -> bool:
        """Whether nobody waits for it any more. May be asked from the connection's thread."""
        return self.gone or self.future.done()


class ReadingTrip:
    """What one trip has come to. The connection's thread writes it, the event loop reads it."""

    __slots__ = ("connection", "current", "done", "lost", "timer")

    def __init__(self, connection: FileConnection) -> None:
        self.connection = connection
        self.timer: asyncio.TimerHandle | None = None
        self.current: JoinedRead | None = None
        """The read that the thread is at."""
        self.done: deque[JoinedRead] = deque()
        self.lost = False
        """Whether a read has found the connection to be of no use any more."""

    def begin(self, read: JoinedRead) -> bool:
        """Turn to a read. False when its caller has left.

        In this order: a caller that leaves either finds its read here, or is found to have left.
        """
        read.trip = self
        read.begun = time.monotonic()
        self.current = read
        if read.left:
            self.current = None
        return self.current is not None

    def end(self, read: JoinedRead, outcome: Result | BaseException) -> None:
        """Note what the read gave."""
        read.outcome = outcome
        self.done.append(read)
        self.current = None


class JoinedReads:
    """The readers of one database that wait."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[JoinedRead] = deque()
        """First come, first served. The connections' threads take from it, too."""
        self._entering: asyncio.Task[None] | None = None
        """Waits for a turn and a connection."""
        self._trip: ReadingTrip | None = None
        """The trip that is under way, unless it has come to a long read."""

    async def submit(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        """Run a statement together with the others that wait.

        Raises what it would raise alone.
        """
        pool = self._connections.reading.pool
        pool.check_usable()
        read = JoinedRead(query, bound, rows)
        self._waiting.append(read)
        if self._trip is None and self._entering is None:
            self._enter()
        timer = read.future.get_loop().call_later(pool.acquire_timeout, self._expire, read)
        try:
            return await read.future
        except GeneratorExit:
            read.gone = True
            self._stop(read)
            raise
        except BaseException:
            read.gone = True
            if read.trip is None:
                self._forget_those_who_left()
            else:
                await self._stop(read)
            raise
        finally:
            timer.cancel()
            # Its exception knows this frame.
            del read

    async def aclose(self) -> None:
        """See the end of what waits for a connection; the pool refuses it."""
        if self._entering is not None:
            await asyncio.wait({self._entering})

    # -- getting a turn --------------------------------------------------------------------------

    def _enter(self) -> None:
        self._entering = asyncio.ensure_future(self._with_a_connection())
        self._entering.add_done_callback(self._entered)

    async def _with_a_connection(self) -> None:
        lane = self._connections.reading
        while self._waiting:
            try:
                connection = await self._connections.enter(lane, None)
            except PoolTimeoutError:
                # Each reader has a clock of its own.
                continue
            except Exception as error:  # noqa: BLE001 - it is the readers', who get it
                self._refuse(error)
                continue
            assert isinstance(connection, FileConnection)
            self._set_out(connection)
            return

    def _entered(self, task: asyncio.Task[None]) -> None:
        self._entering = None
        # Whoever cancels every task there is has cancelled this one, too.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("reads that wait: %s", type(error).__name__)
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and self._trip is None and self._entering is None:
            self._enter()

    def _expire(self, read: JoinedRead) -> None:
        if read.trip is None and not read.left:
            pool = self._connections.reading.pool
            read.future.set_exception(pool.too_late(pool.acquire_timeout))

    def _refuse(self, error: Exception) -> None:
        """No connection: tell all who wait, each with an exception of its own."""
        while (read := self._next()) is not None:
            if not read.left:
                meaning = copy(error)
                meaning.__cause__ = error.__cause__
                read.future.set_exception(meaning)

    def _forget_those_who_left(self) -> None:
        """Those at the head of the queue; the thread passes by the others."""
        while (read := self._next()) is not None:
            if not read.left:
                self._waiting.appendleft(read)
                return
        if self._entering is not None:
            self._entering.cancel()

    def _next(self) -> JoinedRead | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    # -- travelling ------------------------------------------------------------------------------

    def _set_out(self, connection: FileConnection) -> None:
        trip = self._trip = ReadingTrip(connection)
        self._look_again(trip)
        arrival = connection.send_reads(self._waiting, trip)
        arrival.add_done_callback(partial(self._arrive, trip))

    def _look_again(self, trip: ReadingTrip) -> None:
        trip.timer = asyncio.get_running_loop().call_later(_LONG, self._pass_by, trip)

    def _pass_by(self, trip: ReadingTrip) -> None:
        """The trip has come to a long read: nobody else should wait for that."""
        self._answer(trip)
        if self._trip is trip:
            self._trip = None
            self._go_on()
        if (read := trip.current) is not None and not read.left:
            self._stop_when_overdue(read)
        self._look_again(trip)

    def _stop_when_overdue(self, read: JoinedRead) -> None:
        seconds = self._connections.seconds
        if seconds is not None and time.monotonic() - read.begun >= seconds:
            late = timeout_error(read.query, seconds)
            late.__cause__ = TimeoutError()
            # Its caller stops the statement.
            read.future.set_exception(late)

    def _arrive(self, trip: ReadingTrip, arrival: asyncio.Future[None]) -> None:
        if trip.timer is not None:
            trip.timer.cancel()
        if (error := arrival.exception()) is not None:
            # It never set out: the connection was closed.
            _log.info("a connection was closed before its trip: %s", type(error).__name__)
        self._answer(trip)
        lane = self._connections.reading
        if trip.lost or trip.connection.in_transaction:
            lane.pool.discard(trip.connection)
            lane.pool.suspect()
        else:
            lane.pool.release(trip.connection)
        # The turn is kept until those who have their results have made their next calls: the
        # next trip takes them all.
        asyncio.get_running_loop().call_soon(self._give_turn_back, trip)

    def _give_turn_back(self, trip: ReadingTrip) -> None:
        self._connections.reading.leave()
        if self._trip is trip:
            self._trip = None
        self._go_on()

    def _answer(self, trip: ReadingTrip) -> None:
        """Give out what the trip has brought so far."""
        while trip.done:
            read = trip.done.popleft()
            # An exception knows the frames that know the read.
            outcome, read.outcome = read.outcome, None
            if isinstance(outcome, BaseException):
                failure = self._connections.engine.diagnose(trip.connection, read.query, outcome)
                trip.lost = trip.lost or failure.lost
                outcome = failure.error
            if read.left or outcome is None:
                continue
            if isinstance(outcome, Result):
                read.future.set_result(outcome)
            else:
                read.future.set_exception(outcome)

    # -- leaving ---------------------------------------------------------------------------------

    def _stop(self, read: JoinedRead) -> asyncio.Future[None]:
        """Stop the statement of a caller that has left. Done when its thread has got past it."""
        loop = read.future.get_loop()
        past: asyncio.Future[None] = loop.create_future()
        self._interrupt(read, past, loop.time() + _PATIENCE)
        return past

    def _interrupt(self, read: JoinedRead, past: asyncio.Future[None], until: float) -> None:
        loop, trip = past.get_loop(), read.trip
        if trip is None or trip.current is not read or trip.connection.closed:
            if not past.done():
                past.set_result(None)
        elif loop.time() > until:
            _log.warning("a connection is closed: %s could not be interrupted", read.query.name)
            trip.connection.terminate()
            if not past.done():
                past.set_result(None)
        else:
            trip.connection.interrupt()
            if not loop.is_closed():
                loop.call_later(_AGAIN, self._interrupt, read, past, until)
