"""How often a call goes to the database, or to the connection's thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import aiosqlite
import pytest

from deerstore.database import Database
from deerstore.database.catalog import is_own
from tests.database.proxy import Proxy


class Counter:
    """Counts trips since it was last asked."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._last = read()

    def __call__(self) -> int:
        now = self._read()
        spent, self._last = now - self._last, now
        return spent


@pytest.fixture
async def proxied(
    engine, url, open_database, catalog, monkeypatch
) -> AsyncIterator[tuple[Database, Counter]]:
    """A warm database of one connection, and the trips that it makes."""
    if engine == "sqlite":
        count = 0
        execute = aiosqlite.Connection._execute

        async def counted(self, *args, **kwargs):
            nonlocal count
            count += 1
            return await execute(self, *args, **kwargs)

        monkeypatch.setattr(aiosqlite.Connection, "_execute", counted)
        database = await open_database(pool_size=1)
        await _warm(database, catalog)
        yield database, Counter(lambda: count)
        return
    async with Proxy(url) as proxy:
        database = await open_database(at=proxy.url, pool_size=1)
        await _warm(database, catalog)
        yield database, Counter(lambda: proxy.trips)
        await database.aclose()


async def _warm(database: Database, catalog) -> None:
    await database.execute(catalog["notes.create_table"])
    for number in (1, 101):
        await database.execute(
            catalog["notes.add"], id=number, author=f"a{number}", body=None, score=1, parent_id=None
        )
        await database.fetch_optional(catalog["notes.get"], id=number)
        await database.fetch_value(catalog["notes.count"])
        await database.execute(catalog["notes.set_score"], id=number, score=5)
        await database.execute(catalog["notes.add_quietly"], id=number, author="again")
        await database.fetch_all(catalog["notes.list"])
        await database.execute(catalog["notes.add_series"], authors=[f"w{number}"])


async def test_a_single_statement_is_one_trip(proxied, catalog):
    database, trips = proxied
    trips()
    await database.fetch_optional(catalog["notes.get"], id=1)
    assert trips() == 1
    await database.fetch_value(catalog["notes.count"])
    assert trips() == 1
    await database.fetch_all(catalog["notes.list"])
    assert trips() == 1
    assert await database.execute(catalog["notes.set_score"], id=1, score=5) == 1
    assert trips() == 1
    # A duplicate that is passed over makes a warning on MySQL; nobody asks for its text.
    assert await database.execute(catalog["notes.add_quietly"], id=1, author="again") == 0
    assert trips() == 1


async def test_a_read_in_a_session_is_one_trip_and_leaving_it_none(proxied, catalog):
    database, trips = proxied
    trips()
    async with database.session() as session:
        await session.fetch_optional(catalog["notes.get"], id=1)
        assert trips() == 1
        await session.fetch_value(catalog["notes.count"])
        assert trips() == 1
        await session.commit()
    assert trips() == 0


async def test_a_transaction_of_one_write_needs_no_more_than_its_begin_and_its_commit(
    proxied, catalog, engine
):
    database, trips = proxied
    trips()
    async with database.transaction() as session:
        await session.execute(catalog["notes.set_score"], id=1, score=6)
        assert trips() == (1 if engine == "sqlite" else 2)
    assert trips() == 1


async def test_a_query_of_several_steps_is_one_trip_on_sqlite(proxied, catalog, engine):
    database, trips = proxied
    trips()
    await database.execute(catalog["notes.add_series"], authors=["x"])
    # On a server: BEGIN, the steps, COMMIT.
    assert trips() == (1 if engine == "sqlite" else 4)


async def test_many_rows_go_in_few_trips(proxied, catalog, engine):
    database, trips = proxied
    rows = [{"id": number, "author": f"many {number}"} for number in range(1_000, 1_500)]
    await database.execute_many(catalog["notes.add_uncounted"], rows[:1])
    trips()
    await database.execute_many(catalog["notes.add_uncounted"], rows[1:])
    assert trips() <= {"sqlite": 1, "postgres": 8, "mysql": 3}[engine]


async def test_a_failing_statement_of_a_caller_is_fenced_in_at_the_price_of_one_trip(
    proxied, catalog, engine
):
    database, trips = proxied
    assert not is_own(catalog["notes.add"].compiled(database.engine))
    async with database.transaction() as session:
        await session.execute(catalog["notes.set_score"], id=1, score=6)
        trips()
        await session.execute(catalog["notes.set_score"], id=1, score=7)
        # PostgreSQL alone ends a transaction with a failed statement: a savepoint before each.
        assert trips() == (2 if engine == "postgres" else 1)
