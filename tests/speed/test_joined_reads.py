"""SQLite: readers that have to wait share a trip; one that need not never comes near it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from deerstore.database import Database, sqlite_thread
from deerstore.database.sqlite_thread import ThreadSide
from deerstore.repositories import (
    RunEventCreate,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
)

pytestmark = pytest.mark.engines("sqlite", why="only SQLite's connections have a thread each")


@pytest.fixture
async def database(engine, migrated_config) -> AsyncIterator[Database]:
    async with Database(migrated_config) as database:
        events = build_run_event_repository(database)
        for number in range(3):
            await events.append(
                RunEventCreate(
                    thread_id="t",
                    run_id="r",
                    event_type="t",
                    category="message",
                    content=str(number),
                )
            )
        yield database


@pytest.fixture
def trips(monkeypatch) -> list[int]:
    """How many reads each shared trip took."""
    sizes: list[int] = []
    original = ThreadSide.run_reads

    def counted(self, waiting, trip):
        original(self, waiting, trip)
        sizes.append(len(trip.done))

    monkeypatch.setattr(ThreadSide, "run_reads", counted)
    return sizes


async def test_waiting_readers_share_a_trip(database, trips):
    runs, threads = build_run_repository(database), build_thread_meta_repository(database)
    events = build_run_event_repository(database)
    found = await asyncio.gather(
        *(events.count_messages("t") for _ in range(10)),
        *(runs.get_run("r") for _ in range(10)),
        *(threads.get_thread_meta("t") for _ in range(10)),
    )
    assert found == [3] * 10 + [None] * 20
    # The first one found a turn free.
    assert sum(trips) == 29
    assert len(trips) <= 10


async def test_those_who_come_back_for_more_are_taken_together(database, trips):
    """Each has its next call ready when its result is there: no trip for the first of them."""
    events = build_run_event_repository(database)

    async def reader() -> None:
        for _ in range(20):
            assert await events.count_messages("t") == 3

    await asyncio.gather(*(reader() for _ in range(8)))
    assert sum(trips) >= 150
    assert sum(trips) / len(trips) > 3


async def test_a_lone_reader_goes_by_itself(database, trips):
    events = build_run_event_repository(database)
    for _ in range(5):
        assert await events.count_messages("t") == 3
    assert trips == []


async def test_a_trip_takes_no_more_than_its_share(database, trips, monkeypatch):
    events = build_run_event_repository(database)
    await asyncio.gather(*(events.count_messages("t") for _ in range(100)))
    assert sum(trips) == 99
    assert max(trips) <= sqlite_thread._MOST_READS
    trips.clear()
    monkeypatch.setattr(sqlite_thread, "_SHARE", 0.0)
    await asyncio.gather(*(events.count_messages("t") for _ in range(10)))
    assert trips == [1] * 9
