"""No event is lost, none is written twice, and the order is kept, whatever the store does."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from typing import Any

import pytest

from deerstore.errors import ConnectionLostError, InvalidValueError, RetryableError
from deerstore.gateway import RunJournal
from tests.gateway.models import EventStore, ReadableStore


def journal_of(store: Any, **options: Any) -> RunJournal:
    return RunJournal("r1", "t1", store, **{"flush_threshold": 10**6, **options})


def record(journal: RunJournal, numbers: Any) -> None:
    for number in numbers:
        journal.record_middleware("m", name="n", hook="h", action="a", changes=number)


def numbers(store: EventStore) -> list[Any]:
    return [row["content"]["changes"] for row in store.rows]


async def test_a_flush_writes_everything_in_order_and_in_batches():
    store = EventStore()
    journal = journal_of(store)
    record(journal, range(501))
    await journal.flush()
    assert numbers(store) == list(range(501))
    assert max(store.batches) <= 200
    assert journal.pending_events == 0
    await journal.flush()
    assert len(store.rows) == 501


@pytest.mark.parametrize(
    "failures",
    [
        [ConnectionLostError("gone")],
        [RetryableError("deadlock"), TimeoutError("slow")],
        [OSError("x")] * 5,
        [RuntimeError("down")],
        [RuntimeError("down")] * 2,
        [RuntimeError("down")] * 3,
        [RuntimeError("down")] * 7,
        [RuntimeError("down")] * 40,
    ],
)
async def test_a_failed_flush_loses_nothing(failures):
    store = EventStore()
    store.failures = list(failures)
    journal = journal_of(store)
    record(journal, range(5))
    for number in itertools.count(5):
        (error,) = await asyncio.gather(journal.flush(), return_exceptions=True)
        if error is None:
            break
        assert isinstance(error, (OSError, RuntimeError))
        record(journal, [number])
        assert journal.pending_events == number + 1
    assert sorted(numbers(store)) == list(range(number))
    if isinstance(failures[0], OSError | RetryableError) or len(failures) <= 3:
        # A store that refuses an event three times without a reason may get it a little later.
        assert numbers(store) == list(range(number))
    assert not journal.rejected_events


async def test_a_cancelled_flush_goes_on_and_writes_once():
    store = EventStore()
    release = asyncio.Event()
    store.before = release.wait
    journal = journal_of(store)
    record(journal, range(3))
    task = asyncio.create_task(journal.flush())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    record(journal, range(3, 6))
    release.set()
    await journal.flush()
    assert numbers(store) == list(range(6))


@pytest.mark.parametrize("seed", range(5))
async def test_cancelling_at_any_moment(seed):
    chance = random.Random(seed)
    store = ReadableStore()

    async def wait() -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)

    store.before = store.after = wait
    journal = journal_of(store)
    for number in range(200):
        record(journal, [number])
        task = asyncio.create_task(journal.flush())
        for _ in range(chance.randrange(8)):
            await asyncio.sleep(0)
        if chance.random() < 0.5:
            task.cancel()
        else:
            # The write itself is cancelled, before or after the store has it.
            for writer in list(journal._buffer._tasks):
                writer.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await journal.flush()
    assert numbers(store) == list(range(200))


async def test_a_write_of_unknown_outcome_is_looked_up():
    store = ReadableStore()
    journal = journal_of(store)
    record(journal, range(3))

    async def lose() -> None:
        store.after = None
        raise ConnectionLostError("the answer to COMMIT was lost")

    store.after = lose
    with pytest.raises(ConnectionLostError):
        await journal.flush()
    assert len(store.rows) == 3
    record(journal, range(3, 5))
    await journal.flush()
    assert numbers(store) == list(range(5))
    assert journal.pending_events == 0


def test_a_loop_that_closes_during_a_write():
    """`asyncio.run` cancels the write; the next loop takes over."""
    store = ReadableStore()
    journal = journal_of(store)
    record(journal, range(3))

    async def abandoned() -> None:
        async def forever() -> None:
            await asyncio.sleep(60)

        store.before = forever
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(journal.flush(), 0.05)

    asyncio.run(abandoned())
    store.before = None
    record(journal, range(3, 5))
    asyncio.run(journal.flush())
    assert numbers(store) == list(range(5))


@pytest.mark.parametrize("position", [0, 3, 6])
@pytest.mark.parametrize(
    "error",
    [
        InvalidValueError("bad", index=0),
        InvalidValueError("bad"),
        ValueError("bad"),
        TypeError("bad"),
        RuntimeError("bad"),
    ],
    ids=repr,
)
async def test_a_poison_event_never_blocks_the_rest(position, error, caplog):
    store = EventStore()

    async def put_batch(events: list[dict[str, Any]]) -> Any:
        for index, event in enumerate(events):
            if event["content"]["changes"] == "poison":
                if isinstance(error, InvalidValueError) and error.index is not None:
                    raise InvalidValueError("bad", index=index)
                raise error
        return await EventStore.put_batch(store, events)

    store.put_batch = put_batch  # type: ignore[method-assign]
    journal = journal_of(store)
    events: list[Any] = list(range(6))
    events.insert(position, "poison")
    record(journal, events)
    if isinstance(error, RuntimeError) and position == 6:
        # Nothing behind it tells a refused event from a store that is down.
        with pytest.raises(RuntimeError):
            await journal.flush()
        assert numbers(store) == list(range(6))
        record(journal, [6])
        await journal.flush()
        assert numbers(store) == list(range(7))
    else:
        await journal.flush()
        assert numbers(store) == list(range(6))
    assert journal.pending_events == 0
    (rejected,) = journal.rejected_events
    assert rejected[0] == "middleware:m"
    assert "bad" in rejected[1]
    assert [r.levelno for r in caplog.records if "left out" in r.message] == [logging.ERROR]


async def test_waiting_events_are_written_without_being_asked():
    store = EventStore()
    journal = journal_of(store, flush_threshold=5)
    record(journal, range(4))
    await asyncio.sleep(0.01)
    assert not store.rows
    record(journal, range(4, 7))
    await asyncio.sleep(0.01)
    assert len(store.rows) == 5
    await asyncio.to_thread(record, journal, range(7, 13))
    await asyncio.sleep(0.05)
    assert len(store.rows) >= 10
    await journal.flush()
    assert numbers(store) == list(range(13))


async def test_a_store_that_is_down_is_not_asked_for_each_event():
    store = EventStore()
    store.failures = [OSError("down")] * 1000
    journal = journal_of(store, flush_threshold=10)
    for number in range(200):
        record(journal, [number])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert 1000 - len(store.failures) <= 25
    store.failures = []
    await journal.flush()
    assert numbers(store) == list(range(200))


async def test_memory_is_bounded_while_the_store_is_down(caplog):
    store = EventStore()
    store.failures = [OSError("down")] * 1000
    journal = journal_of(store, max_pending_events=100)
    journal._put("run.start", "trace", "")
    record(journal, range(150))
    with pytest.raises(OSError, match="down"):
        await journal.flush()
    record(journal, range(150, 160))
    assert journal.dropped_events == 61
    assert journal.pending_events == 100
    assert "gives way" in caplog.text or "give way" in caplog.text
    store.failures = []
    await journal.flush()
    assert numbers(store) == list(range(60, 160))


def test_events_give_way_without_slowing_the_run_down():
    journal = journal_of(EventStore())
    began = time.process_time()
    record(journal, range(30_000))
    assert time.process_time() - began < 5
    assert 9_000 < journal.pending_events <= 10_000
    assert journal.pending_events + journal.dropped_events == 30_000


async def test_memory_is_bounded_when_a_failed_batch_comes_back():
    store = EventStore()
    store.failures = [OSError("down")]
    journal = journal_of(store, max_pending_events=100)

    async def meanwhile() -> None:
        record(journal, range(100, 180))

    store.before = meanwhile
    record(journal, range(100))
    with pytest.raises(OSError, match="down"):
        await journal.flush()
    assert journal.pending_events == 100
    assert journal.dropped_events == 80
    store.before = None
    await journal.flush()
    assert numbers(store) == list(range(80, 180))


async def test_many_flushes_at_once():
    store = EventStore()
    journal = journal_of(store, flush_threshold=3)

    async def produce(start: int) -> None:
        for number in range(start, start + 50):
            record(journal, [number])
            await journal.flush()
            assert any(n == number for n in numbers(store)), "after flush() nothing is late"

    await asyncio.gather(*(produce(start) for start in range(0, 500, 50)))
    assert sorted(numbers(store)) == list(range(500))
    assert len(numbers(store)) == 500


async def test_a_synchronous_store_will_do():
    class Plain:
        def __init__(self) -> None:
            self.rows: list[Any] = []

        def put_batch(self, events: list[Any]) -> None:
            self.rows += events

    store = Plain()
    journal = journal_of(store)
    record(journal, range(3))
    await journal.flush()
    assert len(store.rows) == 3
