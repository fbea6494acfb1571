"""Holds a run's events until the event store has them: none lost, none twice, in order.

Events come from any thread. One batch is written at a time, by a task of its own, so that
cancelling whoever waits for it does not cancel the write. What a failed write means:

- *The store names the event* (:class:`InvalidValueError` with an index), or a single event is
  refused as a value: the event can never be written. It is set aside and reported, the others
  go on.
- *Any other refusal of a batch*: halves are tried until the event is found, and the event is tried
  again. It is only set aside when events behind it can be written and it still cannot; else the
  store may be down, and everything stays.
- *The connection broke or the write was cancelled*: whether it was committed is not known. Before
  anything is written again, the store is asked (``list_events``); each event of a run has its own
  ``created_at``, by which it is known again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

from deerstore.errors import InvalidValueError, PoolTimeoutError, RetryableError

__all__ = ["EventBuffer"]

_log = logging.getLogger(__name__)

_BATCH_SIZE = 200
_PAGE_SIZE = 500
_MAX_REPORTED = 100
_RETRY_SECONDS = (0.02, 0.1)
# So many refused events in a row are the store's fault, not theirs.
_MAX_SUSPECTS = 3
# The store is not at fault when it refuses these: the same event would be refused again.
_VALUE_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)
# The write did not happen, or may not have: no event is to blame.
_OUTAGES = (OSError, RetryableError, PoolTimeoutError, asyncio.CancelledError)

Event = dict[str, Any]


class EventBuffer:
    """Events of one run on their way to ``event_store.put_batch``.

    Args:
        event_store: anything with ``put_batch(list[dict])``; with ``list_events`` as well, a write
            of unknown outcome is looked up before it is tried again.
        flush_threshold: how many events wait before they are written without being asked.
        max_pending: how many events are held while the store cannot be reached. Then the oldest
            traces give way, after them the oldest events.
    """

    def __init__(
        self,
        event_store: Any,
        thread_id: str,
        run_id: str,
        *,
        flush_threshold: int,
        max_pending: int,
    ) -> None:
        self._store = event_store
        self._thread_id = thread_id
        self._run_id = run_id
        self._threshold = max(flush_threshold, 1)
        self._max_pending = max(max_pending, 1)
        self._lock = threading.Lock()
        self._pending: deque[Event] = deque()
        self._writing: concurrent.futures.Future[BaseException | None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unknown: list[Event] = []
        self._last_seq = 0
        self._last_time = datetime.min.replace(tzinfo=UTC)
        self._recorded = 0
        self._settled = 0
        self._next_flush = self._threshold
        self._home = _running_loop()
        self.dropped = 0
        self.rejected: list[tuple[str, str]] = []

    def __len__(self) -> int:
        """How many events the store does not have yet, as far as is known."""
        with self._lock:
            return self._recorded - self._settled

    def add(self, event: Event) -> None:
        """Take an event. It gets the time of now, later than any event before it."""
        with self._lock:
            now = max(datetime.now(UTC), self._last_time + timedelta(microseconds=1))
            self._last_time = now
            event["created_at"] = now.isoformat(timespec="microseconds")
            self._pending.append(event)
            self._recorded += 1
            if len(self._pending) > self._max_pending:
                # Several at once: looking for traces at each event would take longer than the run.
                self._give_way(max(self._max_pending // 100, 1))
            due = len(self._pending) >= self._next_flush and self._writing is None
            if due:
                # Not again for each event, should the store be down.
                self._next_flush = len(self._pending) + self._threshold
        if due:
            self._flush_soon()

    async def flush(self) -> None:
        """Write everything that was added before the call.

        Raises:
            Exception: what the store raised; nothing is lost, and a later call tries again.
        """
        with self._lock:
            target = self._recorded
            self._home = asyncio.get_running_loop()
        while True:
            with self._lock:
                if self._settled >= target and self._writing is None:
                    return
                writing = self._writing
                if writing is None:
                    writing = self._start()
            # The write goes on when the waiting is cancelled.
            failure = await asyncio.shield(asyncio.wrap_future(writing))
            if failure is not None:
                raise failure

    def _flush_soon(self) -> None:
        loop = _running_loop()
        if self._home is None:
            self._home = loop
        try:
            if loop is not None and loop is self._home:
                self._start_if_idle()
            elif self._home is not None and not self._home.is_closed():
                self._home.call_soon_threadsafe(self._start_if_idle)
        except RuntimeError:
            # The loop closed this moment: the events wait for the next flush.
            _log.debug("run %s: no event loop to write events on", self._run_id)

    def _start_if_idle(self) -> None:
        with self._lock:
            if self._writing is None and self._pending:
                self._start()

    def _start(self) -> concurrent.futures.Future[BaseException | None]:
        """Begin to write the oldest events; the lock is held."""
        done: concurrent.futures.Future[BaseException | None] = concurrent.futures.Future()
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), _BATCH_SIZE))]
        task = asyncio.get_running_loop().create_task(self._write(batch, done))
        self._writing = done
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task cancelled before its first step runs no line of its own.
        task.add_done_callback(lambda _: self._finish(batch, [], asyncio.CancelledError(), done))
        return done

    async def _write(
        self, batch: list[Event], done: concurrent.futures.Future[BaseException | None]
    ) -> None:
        left = deque(batch)
        failure: BaseException | None = None
        try:
            await self._settle_unknown(left)
            await self._put(left)
        except asyncio.CancelledError as error:
            failure = error
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits for the write is told
            failure = error
            _log.warning(
                "run %s: %d events could not be written and are kept: %s",
                self._run_id,
                len(left),
                type(error).__name__,
            )
        finally:
            self._finish(list(left), batch, failure, done)

    def _finish(
        self,
        left: list[Event],
        batch: list[Event],
        failure: BaseException | None,
        done: concurrent.futures.Future[BaseException | None],
    ) -> None:
        with self._lock:
            if done.done():
                return
            self._pending.extendleft(reversed(left))
            self._settled += len(batch) - len(left) if batch else 0
            # What came back may be too much beside what was added meanwhile.
            self._give_way(len(self._pending) - self._max_pending)
            if not left:
                self._next_flush = self._threshold
            self._writing = None
        done.set_result(failure)

    async def _put(self, left: deque[Event]) -> None:
        """Write events in order, taking each from ``left`` once it is settled."""
        suspects: list[tuple[Event, Exception]] = []
        size = len(left)
        try:
            while left:
                chunk = [left[i] for i in range(min(size, len(left)))]
                try:
                    await self._store_batch(chunk)
                except _OUTAGES:
                    self._unknown = chunk
                    raise
                except Exception as error:
                    index = _index_of(error, len(chunk))
                    if index is not None:
                        self._reject(chunk[index], error)
                        del left[index]
                    elif len(chunk) > 1:
                        size = len(chunk) // 2
                    elif await self._accepted_at_last(chunk):
                        left.popleft()
                    elif len(suspects) < _MAX_SUSPECTS:
                        suspects.append((left.popleft(), error))
                    else:
                        raise
                else:
                    for _ in chunk:
                        left.popleft()
                    size *= 2
                    await self._judge(suspects)
            if suspects:
                # Nothing behind them shows that the store is well.
                raise suspects[0][1]
        finally:
            left.extendleft(event for event, _ in reversed(suspects))

    async def _accepted_at_last(self, chunk: list[Event]) -> bool:
        """Whether the store takes an event that it refused a moment ago."""
        for seconds in _RETRY_SECONDS:
            await asyncio.sleep(seconds)
            try:
                await self._store_batch(chunk)
            except _OUTAGES:
                self._unknown = chunk
                raise
            except Exception as error:  # noqa: BLE001 - the caller has the first one
                _log.debug("run %s: refused again: %s", self._run_id, type(error).__name__)
            else:
                return True
        return False

    async def _judge(self, suspects: list[tuple[Event, Exception]]) -> None:
        """The store is well: what it still refuses can never be written."""
        while suspects:
            event, error = suspects[0]
            if not await self._accepted_at_last([event]):
                self._reject(event, error)
            suspects.pop(0)

    async def _store_batch(self, events: list[Event]) -> None:
        # The store gets copies: it may add to them, and they may have to be sent again.
        stored = self._store.put_batch([{**event} for event in events])
        if inspect.isawaitable(stored):
            stored = await stored
        if isinstance(stored, list) and stored and isinstance(stored[-1], dict):
            seq = stored[-1].get("seq")
            if isinstance(seq, int):
                self._last_seq = max(self._last_seq, seq)

    async def _settle_unknown(self, left: deque[Event]) -> None:
        """Take from ``left`` what an earlier write of unknown outcome has stored after all."""
        listed = getattr(self._store, "list_events", None)
        if not self._unknown or listed is None:
            self._unknown = []
            return
        wanted: set[datetime | None] = {
            datetime.fromisoformat(event["created_at"]) for event in self._unknown
        }
        found: set[datetime | None] = set()
        after = self._last_seq
        while True:
            rows = await listed(
                self._thread_id, self._run_id, after_seq=after, limit=_PAGE_SIZE, user_id=None
            )
            found |= wanted & {_time_of(row) for row in rows}
            if len(rows) < _PAGE_SIZE:
                break
            after = rows[-1]["seq"]
        self._unknown = []
        missing = [e for e in left if datetime.fromisoformat(e["created_at"]) not in found]
        left.clear()
        left.extend(missing)

    def _reject(self, event: Event, error: BaseException) -> None:
        _log.error(
            "run %s: an event of type %s can never be written and is left out: %s: %s",
            self._run_id,
            event.get("event_type"),
            type(error).__name__,
            error,
        )
        if len(self.rejected) < _MAX_REPORTED:
            self.rejected.append((str(event.get("event_type")), f"{type(error).__name__}: {error}"))

    def _give_way(self, count: int) -> None:
        """Drop so many events, the oldest traces first; the lock is held."""
        if count <= 0:
            return
        if not self.dropped:
            _log.error(
                "run %s: the event store has taken nothing for %d events; the oldest give way",
                self._run_id,
                self._max_pending,
            )
        self.dropped += count
        self._settled += count
        kept: deque[Event] = deque()
        for event in self._pending:
            if count and event.get("category") == "trace":
                count -= 1
            else:
                kept.append(event)
        for _ in range(count):
            kept.popleft()
        self._pending = kept


def _index_of(error: Exception, count: int) -> int | None:
    """Which event of a batch an error is about, if it says so."""
    index = getattr(error, "index", None) if isinstance(error, InvalidValueError) else None
    if isinstance(index, int) and 0 <= index < count:
        return index
    return 0 if count == 1 and isinstance(error, _VALUE_ERRORS) else None


def _time_of(row: Any) -> datetime | None:
    value = row.get("created_at") if isinstance(row, dict) else None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
