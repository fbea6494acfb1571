"""Time against the amount of data: searches over threads, pages of one long thread of events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.bulk import bulk_for
from benchmarks.places import Place
from deerstore.database import Database
from deerstore.persistence import create_persistence_from_storage_config
from deerstore.workbench.bench import (
    Contestant,
    Interval,
    interleave,
    median_interval,
    repositories,
)

__all__ = ["Point", "grow_events", "grow_runs", "grow_threads"]

LONG = "grow-events"


@dataclass(frozen=True)
class Point:
    """The time of one kind of call with ``size`` rows, in nanoseconds."""

    what: str
    size: int
    time: Interval


async def grow_threads(place: Place, sizes: list[int], *, rounds: int) -> list[Point]:
    """``search_threads`` with one and three selective filters, with none, and with common ones."""
    points: list[Point] = []
    async with await _opened(place) as database, bulk_for(place) as bulk:
        to = repositories(database).threads
        have = 0
        for size in sizes:
            await bulk.threads(have, size)
            have = size
            middle = size // 2
            searches: dict[str, Callable[[], Awaitable[Any]]] = {
                "one selective filter": lambda: to.search_threads(metadata={"number": middle}),  # noqa: B023
                "three filters, one selective": lambda: to.search_threads(
                    metadata={"project": "p1", "number": middle, "beta": True}  # noqa: B023
                ),
                "a common filter, page of 100": lambda: to.search_threads(
                    metadata={"project": "p1"}
                ),
                "three common filters, page of 100": lambda: to.search_threads(
                    metadata={"project": "p1", "beta": True, "stage": 1}
                ),
                "no filter, page of 100": to.search_threads,
                "most recent, page of 100": lambda: to.search_threads(order="recent"),
            }
            points += await _measure(searches, size, rounds)
    return points


async def grow_events(place: Place, sizes: list[int], *, rounds: int) -> list[Point]:
    """Pages at the start, in the middle and at the end of one thread, and an append to it."""
    points: list[Point] = []
    async with await _opened(place) as database, bulk_for(place) as bulk:
        to = repositories(database).events
        have = 0
        for size in sizes:
            await bulk.events(LONG, have, size)
            have = size
            middle = size // 2
            pages: dict[str, Callable[[], Awaitable[Any]]] = {
                "page at the start": lambda: to.list_messages(LONG, after_seq=0),
                "page in the middle": lambda: to.list_messages(LONG, after_seq=middle),  # noqa: B023
                "page before the middle": lambda: to.list_messages(LONG, before_seq=middle),  # noqa: B023
                "page at the end": lambda: to.list_messages(LONG),
                "messages of the last run": lambda: to.list_messages_by_run(
                    LONG,
                    f"grow-run-{(size - 1) // 100}",  # noqa: B023
                ),
                "events of the first run": lambda: to.list_events(LONG, "grow-run-0"),
            }
            points += await _measure(pages, size, rounds)
    return points


async def grow_runs(place: Place, sizes: list[int], *, rounds: int) -> list[Point]:
    """Pages of one thread's runs, and some of them by their ids."""
    points: list[Point] = []
    async with await _opened(place) as database, bulk_for(place) as bulk:
        to = repositories(database).runs
        have = 0
        for size in sizes:
            await bulk.runs(LONG, have, size)
            have = size
            middle = f"grow-{size // 2}"
            some = [f"grow-{number}" for number in range(0, size, size // 20)]
            pages: dict[str, Callable[[], Awaitable[Any]]] = {
                "the newest 50": lambda: to.list_runs_by_thread(LONG),
                "50 before the middle": lambda: to.list_runs_before(LONG, before_run_id=middle),  # noqa: B023
                "20 by their ids": lambda: to.get_runs(LONG, some),  # noqa: B023
            }
            points += await _measure(pages, size, rounds)
    return points


async def _opened(place: Place) -> Database:
    persistence = await create_persistence_from_storage_config(place.config)
    try:
        await persistence.setup()
    finally:
        await persistence.aclose()
    return Database(place.config)


async def _measure(
    calls: dict[str, Callable[[], Awaitable[Any]]], size: int, rounds: int
) -> list[Point]:
    contestants = [Contestant(name, lambda _, call=call: call()) for name, call in calls.items()]
    series = await interleave(contestants, rounds=rounds, calls=3, warm=2)
    return [Point(each.name, size, median_interval(each.medians)) for each in series]
