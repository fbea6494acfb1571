"""Writers that meet: two bundles, two event loops, two processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.errors import RetryableError

SERVERS = pytest.mark.engines("postgres", "mysql", why="SQLite locks the file, not rows")
FILES = pytest.mark.engines("sqlite", why="the queue of writers exists for its one lock")


@pytest.fixture
async def other(open_database, database) -> Database:
    """A second bundle on the same database."""
    return await open_database(busy_timeout=5)


async def score_of(database: Database, catalog, number: int) -> int | None:
    return (await database.fetch_one(catalog["notes.get"], id=number))["score"]


async def test_a_writer_waits_for_the_writer_before_it(database, other, catalog, notes):
    await notes.add(database, 1, score=0)
    async with database.session() as holder:
        await holder.execute(catalog["notes.raise_scores"])
        waiting = asyncio.ensure_future(other.execute(catalog["notes.raise_scores"]))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await holder.commit()
    await waiting
    assert await score_of(database, catalog, 1) == 2


async def test_waiting_longer_than_the_busy_timeout_is_an_error_to_try_again(
    database, open_database, catalog, notes
):
    await notes.add(database, 1, score=0)
    # One second is the least that MySQL knows.
    impatient = await open_database(busy_timeout=1, pool_size=2)
    async with database.session() as holder:
        await holder.execute(catalog["notes.raise_scores"])
        started = time.monotonic()
        with pytest.raises(RetryableError, match=r"notes\.set_score") as caught:
            await impatient.execute(catalog["notes.set_score"], id=1, score=5)
        assert 0.8 < time.monotonic() - started < 3
        assert caught.value.__cause__ is not None
        async with impatient.session() as session:
            with pytest.raises(RetryableError):
                await session.execute(catalog["notes.set_score"], id=1, score=5)
        await holder.commit()
    await impatient.execute(catalog["notes.set_score"], id=1, score=5)
    assert await score_of(database, catalog, 1) == 5


async def test_waiting_is_not_repeated_when_it_ran_out(database, open_database, catalog, notes):
    await notes.add(database, 1, score=0)
    impatient = await open_database(busy_timeout=1)
    tries = 0

    async def work(unit) -> None:
        nonlocal tries
        tries += 1
        await unit.execute(catalog["notes.raise_scores"])

    async with database.session() as holder:
        await holder.execute(catalog["notes.raise_scores"])
        with pytest.raises(RetryableError):
            await impatient.retrying(work)
    assert tries == 1


async def test_reading_and_then_writing_never_fails_because_somebody_wrote_in_between(
    database, other, catalog, notes
):
    await notes.add(database, 1, score=0)
    async with database.session() as session:
        for _ in range(5):
            assert await notes.ids(session) == [1]
            await other.execute(catalog["notes.raise_scores"])
        await session.execute(catalog["notes.raise_scores"])
        await session.commit()
    assert await score_of(database, catalog, 1) == 6


async def test_a_session_that_only_reads_is_in_nobodys_way(database, other, catalog, notes):
    await notes.add(database, 1, score=0)
    async with database.session() as reader:
        await notes.ids(reader)
        async with asyncio.timeout(2):
            await other.execute(catalog["notes.raise_scores"])
            async with other.transaction() as writer:
                await writer.execute(catalog["notes.raise_scores"])
                assert await score_of(reader, catalog, 1) == 1
        assert await score_of(reader, catalog, 1) == 2


async def test_many_writers_in_two_bundles_all_come_through(database, other, catalog, notes):
    await notes.add(database, 1, score=0)

    async def single(bundle: Database) -> None:
        await bundle.execute(catalog["notes.raise_scores"])

    async def unit(bundle: Database) -> None:
        async with bundle.transaction() as session:
            await notes.ids(session)
            await session.execute(catalog["notes.raise_scores"])

    await asyncio.gather(
        *(
            work(bundle)
            for work in (single, unit)
            for bundle in (database, other)
            for _ in range(25)
        )
    )
    assert await score_of(database, catalog, 1) == 100


async def cross(database: Database, catalog, first: int, second: int, meet: asyncio.Barrier):
    """Lock two rows in an order; with its mirror image this is a deadlock."""

    async def work(unit) -> None:
        await unit.execute(catalog["notes.set_score"], id=first, score=first)
        if not work.met:
            work.met = True
            await meet.wait()
        await unit.execute(catalog["notes.set_score"], id=second, score=second)

    work.met = False
    return work


@SERVERS
async def test_a_deadlock_ends_one_session_with_an_error_to_try_again(
    database, other, catalog, notes
):
    for number in (1, 2):
        await notes.add(database, number)
    meet = asyncio.Barrier(2)
    works = [await cross(database, catalog, *order, meet) for order in ((1, 2), (2, 1))]
    sessions = [database.session(), other.session()]
    outcomes = await asyncio.gather(
        *(work(session) for work, session in zip(works, sessions, strict=True)),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "RetryableError"]
    ended = dict(zip((outcome is None for outcome in outcomes), sessions, strict=True))
    await ended[True].commit()
    assert ended[False].repeatable
    await ended[False].rollback()
    await ended[False].execute(catalog["notes.raise_scores"])
    for session in sessions:
        await session.close()


@SERVERS
async def test_a_retried_unit_comes_through_a_deadlock(database, other, catalog, notes):
    for number in (1, 2):
        await notes.add(database, number)
    meet = asyncio.Barrier(2)
    works = [await cross(database, catalog, *order, meet) for order in ((1, 2), (2, 1))]
    await asyncio.gather(database.retrying(works[0]), other.retrying(works[1]))
    assert [await score_of(database, catalog, number) for number in (1, 2)] == [1, 2]


async def test_a_retried_unit_gives_its_value_and_passes_other_errors_on(database, notes):
    async def work(unit) -> str:
        await notes.add(unit, 1)
        return "done"

    assert await database.retrying(work) == "done"

    async def broken(unit) -> None:
        await notes.add(unit, 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.retrying(broken)
    async with database.session() as session:
        await notes.add(session, 3)
        with pytest.raises(ZeroDivisionError):
            await session.retrying(broken)
        await session.commit()
    assert await notes.ids(database) == [1, 3]


@FILES
async def test_writers_of_one_file_are_served_in_the_order_of_their_coming(
    database, other, catalog, notes
):
    await notes.add(database, 1, score=0)
    served: list[int] = []

    async def write(number: int) -> None:
        await (database, other)[number % 2].execute(catalog["notes.raise_scores"])
        served.append(number)

    async with database.session() as holder:
        await holder.execute(catalog["notes.raise_scores"])
        tasks = []
        for number in range(12):
            tasks.append(asyncio.ensure_future(write(number)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        await holder.commit()
    await asyncio.gather(*tasks)
    assert served == list(range(12))


@FILES
async def test_event_loops_of_one_process_share_the_queue(database, catalog, notes, url):
    await notes.add(database, 1, score=0)
    failures: list[BaseException] = []

    async def write(bundle: Database) -> None:
        for _ in range(50):
            await bundle.execute(catalog["notes.raise_scores"])
            async with bundle.transaction() as session:
                await session.execute(catalog["notes.raise_scores"])

    async def elsewhere() -> None:
        async with Database(StorageConfig(database_url=url, busy_timeout=10)) as bundle:
            await write(bundle)

    def run() -> None:
        try:
            asyncio.run(elsewhere())
        except BaseException as failure:  # noqa: BLE001 - told to the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    await write(database)
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    assert failures == []
    assert await score_of(database, catalog, 1) == 300


WRITER = """
import asyncio, sys
from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.queries import load_queries

async def main(url, folder):
    catalog = load_queries(folder)
    async with Database(StorageConfig(database_url=url)) as database:
        for _ in range(40):
            await database.execute(catalog["notes.raise_scores"])
            async with database.transaction() as session:
                await session.fetch_all(catalog["notes.list"])
                await session.execute(catalog["notes.raise_scores"])

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_write_at_once(database, catalog, notes, url):
    await notes.add(database, 1, score=0)
    folder = str(Path(__file__).parent / "sql")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", textwrap.dedent(WRITER), url, folder,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
    assert await score_of(database, catalog, 1) == 240
