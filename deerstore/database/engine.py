"""What the facade asks of an engine. Only the files of the three engines use drivers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from deerstore.database.failures import lost_error, timeout_error
from deerstore.database.gate import WriterGate
from deerstore.database.undeclared import Kinds, typed_rows
from deerstore.errors import DeerstoreError
from deerstore.queries import Codec, CompiledQuery

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.database.joined_reads import JoinedRead, ReadingTrip
    from deerstore.database.joined_writes import JoinedWrite

__all__ = [
    "ALONE",
    "Connection",
    "Deadline",
    "Engine",
    "Failure",
    "FileConnection",
    "Result",
    "RunQuery",
    "Scope",
    "Verdict",
    "lock_patience",
]

T = TypeVar("T")


@dataclass(slots=True)
class Result:
    """What one call brought back."""

    rows: Sequence[Sequence[Any]]
    """Rows as the driver gives them; empty when only the count was wanted."""
    count: int
    """Rows matched by the statement that gives the result."""
    names: tuple[str, ...] | None
    """Column names, where rows were wanted and the query does not declare them."""
    kinds: Kinds = ()
    """What is known of the types of such columns."""


RunQuery: TypeAlias = Callable[[CompiledQuery, Sequence[Any]], Result]
"""Runs one query, there and then."""


class Scope(NamedTuple):
    """How a call stands to transactions."""

    begin: bool = False
    """Open a transaction first, and leave it open."""
    inside: bool = False
    """A transaction is open, or is opened by ``begin``; else the call is committed at once."""
    savepoints: tuple[str, ...] = ()
    """Savepoints to be set before the statement."""
    guarded: bool = False
    """A failure must leave what the transaction did before as it was."""


ALONE = Scope()


class Verdict(NamedTuple):
    """What a driver's exception means."""

    error: Exception
    lost: bool = False
    """The connection is gone."""
    repeatable: bool = False
    """The engine undid everything and asks for another try at once."""


class Failure(NamedTuple):
    """A failed call."""

    error: BaseException
    stopped: bool = False
    """The call was cancelled or timed out: the connection is in the middle of something."""
    lost: bool = False
    repeatable: bool = False


class Deadline:
    """Cancels the task whose statement takes longer than ``seconds``.

    One timer per connection, set anew only when it fires, costs a statement next to nothing: most
    end long before.
    """

    __slots__ = ("_cancelling", "_due", "_expired", "_loop", "_task", "_timer", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._due = 0.0
        self._cancelling = 0
        self._expired = False

    def start(self) -> None:
        """The running task begins a statement."""
        if self.seconds is None:
            return
        task = asyncio.current_task()
        if task is None:
            return
        self._task = task
        self._cancelling = task.cancelling()
        self._due = self._loop.time() + self.seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._ring)

    def stop(self) -> bool:
        """The statement is over. True when its task was cancelled by this deadline alone."""
        task, self._task = self._task, None
        if not self._expired:
            return False
        self._expired = False
        return task is not None and task.uncancel() <= self._cancelling

    def close(self) -> None:
        """Stop the timer for good."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._task is None or self._expired:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._ring)
            return
        self._expired = True
        self._task.cancel()


class Connection(ABC):
    """One connection to the database, used by one call at a time."""

    idle_since: float = 0.0
    deadline: Deadline

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open. No I/O."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the connection is known to be unusable. No I/O."""

    @abstractmethod
    async def run(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, *, rows: bool
    ) -> Result:
        """Execute a query of one or several steps. Several are atomic.

        A call that stands alone and has one step is one trip. Raises the driver's exceptions.
        """

    @abstractmethod
    async def run_many(
        self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope
    ) -> int:
        """Execute a query once per set of arguments, all or nothing. Gives the rows matched."""

    @abstractmethod
    def stream(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, batch: int
    ) -> AsyncGenerator[Result, None]:
        """The rows of a reading query in portions of about ``batch``, never all at once."""

    @abstractmethod
    async def begin(self, savepoints: Sequence[str]) -> None:
        """Open a transaction that will write, and savepoints in it."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit the open transaction."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll the open transaction back."""

    @abstractmethod
    async def release(self, savepoint: str) -> None:
        """Keep what was done since the savepoint."""

    @abstractmethod
    async def rollback_to(self, savepoint: str) -> None:
        """Undo what was done since the savepoint, and drop it."""

    @abstractmethod
    async def abandon(self) -> None:
        """After a cancelled call: stop the statement on the server and roll everything back.

        The connection is idle afterwards, or closed.
        """

    @abstractmethod
    async def check(self) -> None:
        """Ask the server for an answer; any exception means that the connection is dead."""

    @abstractmethod
    async def close(self) -> None:
        """Say goodbye and close."""

    @abstractmethod
    def terminate(self) -> None:
        """Close at once, without waiting for anything."""


class FileConnection(Connection):
    """A connection with a thread, to which several things can be taken in one trip."""

    @abstractmethod
    async def run_writes(self, writes: Sequence[JoinedWrite]) -> list[Result | Exception]:
        """Execute the statements of several writers in one transaction.

        Each is a unit: one that fails gives its exception and leaves the others as they are. An
        exception that is raised means that nothing was done.
        """

    @abstractmethod
    def send_reads(self, waiting: deque[JoinedRead], trip: ReadingTrip) -> asyncio.Future[None]:
        """Take readers that wait, one after the other, until none is left or time is up.

        The trip tells how far it has come. The future, which is not to be cancelled, is done when
        it is over, and has an exception when it never began: the connection was closed.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """End the statement that runs at this moment, if any."""

    @abstractmethod
    async def run_unit(self, through: Callable[[RunQuery], T], *, writes: bool) -> T:
        """Go through several queries without a return to the caller between them.

        One that ``writes`` is a transaction of its own.
        """


def lock_patience(config: StorageConfig) -> float:
    """Seconds to wait for another writer: so that this answer comes before ``command_timeout``."""
    if config.command_timeout is None:
        return config.busy_timeout
    return min(config.busy_timeout, config.command_timeout * 0.9)


class Engine(ABC):
    """What is specific to one engine, beside its connections."""

    name: str
    codec: Codec
    reads_at_a_time: int | None = None
    """How many single reads are best run at a time, where that is fewer than connections."""
    in_file = False
    """Whether its connections are :class:`FileConnection`."""

    @abstractmethod
    async def connect(self) -> Connection:
        """A new connection with deerstore's settings, whatever the server's defaults are."""

    @abstractmethod
    def judge(self, error: Exception, query: CompiledQuery | None) -> Verdict:
        """The meaning of a driver's exception, which becomes the error's cause."""

    def diagnose(
        self, connection: Connection, query: CompiledQuery | None, error: BaseException
    ) -> Failure:
        """The failure that an exception out of a connection stands for. Ends its deadline."""
        timed_out = connection.deadline.stop()
        if isinstance(error, asyncio.CancelledError) and timed_out:
            late = timeout_error(query, connection.deadline.seconds)
            late.__cause__ = TimeoutError()
            return Failure(late, stopped=True)
        if not isinstance(error, Exception):
            return Failure(error, stopped=True)
        if isinstance(error, DeerstoreError):
            return Failure(error, lost=connection.closed)
        verdict = self.judge(error, query)
        if verdict.error is error and connection.closed:
            # Drivers stumble over a connection that was closed under them in many ways.
            verdict = Verdict(lost_error(query, type(error).__name__), lost=True)
        if verdict.error is not error:
            verdict.error.__cause__ = error
        return Failure(
            verdict.error, lost=verdict.lost or connection.closed, repeatable=verdict.repeatable
        )

    def gate(self) -> WriterGate | None:
        """The queue of writers, where only one transaction at a time can write."""
        return None

    def normalise(self, result: Result) -> list[tuple[Any, ...]]:
        """Rows whose columns are not declared, as far as the driver knows their types."""
        return typed_rows(result.rows, result.kinds)
