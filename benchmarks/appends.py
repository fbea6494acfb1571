"""SQLite: many tasks append one event each; waiting writers against one commit each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import aiosqlite

from benchmarks.places import Place
from deerstore.database import Database
from deerstore.queries import CompiledQuery
from deerstore.workbench.bench import record, repositories
from deerstore.workbench.bench.seed import event

__all__ = ["joined_appends"]

TASKS = 32


async def joined_appends(place: Place, *, full: bool) -> dict[str, Any]:
    """Appends per second with ``synchronous`` NORMAL and FULL, in alternating slices."""
    return {
        synchronous: await _with(place, synchronous, slices=10 if full else 4)
        for synchronous in ("NORMAL", "FULL")
    }


async def _with(place: Place, synchronous: str, *, slices: int) -> dict[str, str]:
    config = place.config.model_copy(update={"sqlite_synchronous": synchronous})
    async with (
        Database(config) as database,
        aiosqlite.connect(config.targets.sqlite_path(), isolation_level=None) as raw,
    ):
        await raw.execute("PRAGMA busy_timeout = 30000")
        await raw.execute(f"PRAGMA synchronous = {synchronous}")
        events = repositories(database).events
        calls, _ = await record(database, lambda s: repositories(s).events.append(_one(0)))
        single: Any = partial(_unit, raw._conn, *calls[0])
        own, each = [], []
        for _ in range(slices):
            own.append(await _slice(lambda task: events.append(_one(task))))
            each.append(await _slice(lambda _: raw._execute(single)))
        alone = []
        for _ in range(300):
            start = perf_counter()
            await events.append(_one(0))
            alone.append(perf_counter() - start)
    return {
        "deerstore": f"{median(own):.0f}/s",
        "one commit each, bare": f"{median(each):.0f}/s",
        "a lone writer": f"{median(alone) * 1e6:.0f} µs",
    }


def _unit(raw: Any, query: CompiledQuery, bound: Sequence[Any]) -> None:
    raw.execute("BEGIN IMMEDIATE")
    found: dict[str, Any] = {}
    for step, args in zip(query.steps, bound, strict=True):
        filled = step.fill(args, found)
        if step.each:
            raw.executemany(step.sql, filled)
        else:
            rows = raw.execute(step.sql, filled).fetchall()
            found = dict(zip(step.returns, rows[0], strict=False))
    raw.execute("COMMIT")


def _one(task: int) -> Any:
    return event(f"joined-{task}", "joined", 1)


async def _slice(call: Any, seconds: float = 0.7) -> float:
    end = perf_counter() + seconds
    count = 0

    async def work(task: int) -> None:
        nonlocal count
        while perf_counter() < end:
            await call(task)
            count += 1

    start = perf_counter()
    await asyncio.gather(*(work(task) for task in range(TASKS)))
    return count / (perf_counter() - start)
