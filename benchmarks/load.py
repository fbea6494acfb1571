"""Many tasks at once: throughput of a closed loop, latency of an open one.

The mix is 70 % reads (get_run, list_messages) and 30 % writes (append_batch of 5, a status).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.peers.engine import engine_for
from benchmarks.peers.orm import Orm
from benchmarks.places import Place
from deerstore.database import Database
from deerstore.workbench.bench import open_floor, record, repositories
from deerstore.workbench.bench.run import prepare_database
from deerstore.workbench.bench.seed import EVENT_THREAD, event

__all__ = ["Latency", "Throughput", "closed_loop", "open_loop"]

TASKS = 32
POOL = 10

_RUNS = [f"bench-run-{number}" for number in range(190)]
# A thread for each task: the peer reads its counter before it writes.
_MOST = 1_000
_THREADS = [f"load-{number}" for number in range(TASKS)]

Mix = Callable[[random.Random, int], Awaitable[Any]]


@dataclass
class Throughput:
    """Operations per second of each slice of time, and every latency in seconds."""

    name: str
    per_second: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass
class Latency:
    """Latencies at a fixed rate, from the moment at which each call was due, in seconds."""

    name: str
    rate: int
    latencies: list[float] = field(default_factory=list)


def _mix(read_run: Any, read_page: Any, append: Any, status: Any) -> Mix:
    async def one(draw: random.Random, task: int) -> None:
        roll = draw.random()
        run_id = draw.choice(_RUNS)
        if roll < 0.4:
            await read_run(run_id)
        elif roll < 0.7:
            await read_page(EVENT_THREAD)
        elif roll < 0.9:
            await append(_batch(f"load-{task % _MOST}"))
        else:
            await status(run_id)

    return one


async def _contestants(place: Place, stack: AsyncExitStack) -> dict[str, Mix]:
    config = place.config.model_copy(update={"pool_size": POOL})
    database = await stack.enter_async_context(Database(config))
    engine = engine_for(place.config, size=POOL)
    stack.push_async_callback(engine.dispose)
    to, orm = repositories(database), Orm(engine)
    return {
        "floor": await _floor(place, database, stack),
        "deerstore": _mix(
            to.runs.get_run,
            to.events.list_messages,
            to.events.append_batch,
            lambda run_id: to.runs.update_run_status(run_id, "success"),
        ),
        "SQLAlchemy ORM": _mix(
            orm.get_run,
            lambda thread_id: orm.list_messages(thread_id, 50),
            orm.append_batch,
            lambda run_id: orm.set_status(run_id, "success"),
        ),
    }


async def _floor(place: Place, database: Database, stack: AsyncExitStack) -> Mix:
    """The same statements on connections of the bare driver, kept in a plain queue.

    On SQLite one connection writes and four read, as aiosqlite has one thread for each.
    """
    readers: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
    writers: asyncio.LifoQueue[Any] = asyncio.LifoQueue() if place.kind == "sqlite" else readers
    for number in range(5 if place.kind == "sqlite" else POOL):
        floor = await open_floor(place.config)
        stack.push_async_callback(floor.close)
        (writers if number == 0 else readers).put_nowait(floor)

    recorded: dict[tuple[str, str], Any] = {}
    for what, key, call in _CALLS:
        recorded[what, key], _ = await record(database, lambda s, c=call: c(repositories(s)))
    encode = database._connections.engine.codec.encoders["json"]
    assert encode is not None

    async def play(queue: asyncio.LifoQueue[Any], what: str, key: str) -> None:
        floor = await queue.get()
        try:
            await floor.play(recorded[what, key])
        finally:
            queue.put_nowait(floor)

    async def append(events: list[Any]) -> None:
        _texts = [encode(value) for each in events for value in (each.content, each.metadata)]
        await play(writers, "append", events[0].thread_id)

    return _mix(
        lambda run_id: play(readers, "run", run_id),
        lambda thread_id: play(readers, "page", thread_id),
        append,
        lambda run_id: play(writers, "status", run_id),
    )


def _batch(thread: str) -> list[Any]:
    return [event(thread, thread, number) for number in range(5)]


_CALLS: list[tuple[str, str, Callable[[Any], Awaitable[Any]]]] = [
    ("page", EVENT_THREAD, lambda to: to.events.list_messages(EVENT_THREAD)),
    *(("run", run, lambda to, run=run: to.runs.get_run(run)) for run in _RUNS),
    *(
        ("status", run, lambda to, run=run: to.runs.update_run_status(run, "success"))
        for run in _RUNS
    ),
    *(
        ("append", thread, lambda to, thread=thread: to.events.append_batch(_batch(thread)))
        for thread in _THREADS
    ),
]


async def closed_loop(
    place: Place, *, slices: int, seconds: float, seeded: bool
) -> list[Throughput]:
    """32 tasks, each with its next call as soon as its last one ended, in alternating slices."""
    if not seeded:
        await prepare_database(place.config)
    async with AsyncExitStack() as stack:
        contestants = await _contestants(place, stack)
        results = {name: Throughput(name) for name in contestants}
        for mix in contestants.values():
            await _slice(mix, 0.3)
        for _ in range(slices):
            for name, mix in contestants.items():
                latencies, elapsed = await _slice(mix, seconds)
                results[name].per_second.append(len(latencies) / elapsed)
                results[name].latencies += latencies
        return list(results.values())


async def _slice(mix: Mix, seconds: float) -> tuple[list[float], float]:
    latencies: list[float] = []
    start = perf_counter()
    end = start + seconds

    async def task(number: int) -> None:
        draw = random.Random(number)
        while (begun := perf_counter()) < end:
            await mix(draw, number)
            latencies.append(perf_counter() - begun)

    await asyncio.gather(*(task(number) for number in range(TASKS)))
    return latencies, perf_counter() - start


async def open_loop(place: Place, *, rates: Sequence[int], seconds: float) -> list[Latency]:
    """Calls that are due at fixed times, whether or not the ones before have ended."""
    async with AsyncExitStack() as stack:
        contestants = await _contestants(place, stack)
        # Its calls are recorded for the closed loop's tasks only.
        del contestants["floor"]
        for mix in contestants.values():
            await _slice(mix, 0.3)
        return [
            await _at_rate(name, mix, rate, seconds)
            for rate in rates
            for name, mix in contestants.items()
        ]


async def _at_rate(name: str, mix: Mix, rate: int, seconds: float) -> Latency:
    result = Latency(name, rate)
    draw = random.Random(rate)
    start = perf_counter() + 0.05

    async def call(due: float, number: int) -> None:
        await mix(draw, number)
        result.latencies.append(perf_counter() - due)

    tasks = set()
    for number in range(round(rate * seconds)):
        due = start + number / rate
        wait = due - perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        if len(tasks) > 20 * TASKS:
            # It does not keep up: what waits longer would say nothing more.
            break
        task = asyncio.ensure_future(call(due, number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return result
