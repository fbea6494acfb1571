"""Servers that go away, networks that are cut, tables that change."""

from __future__ import annotations

import asyncio
import time

import pytest

from deerstore.database import Database
from deerstore.errors import ConnectionLostError, QueryExecutionError
from tests.database.proxy import Proxy

pytestmark = pytest.mark.engines("postgres", "mysql", why="SQLite has no server that could go away")


async def fill(database: Database, catalog, count: int = 3) -> None:
    """Bring idle connections into the pool."""
    sessions = [database.session() for _ in range(count)]
    for session in sessions:
        await session.fetch_value(catalog["notes.count"])
    for session in sessions:
        await session.close()
    assert database.pool.idle == count


async def test_idle_connections_that_the_server_ended_are_replaced(database, server, catalog):
    await fill(database, catalog)
    assert await server.kill() == 3
    await asyncio.sleep(0.05)
    for _ in range(6):
        assert await database.fetch_value(catalog["notes.count"]) == 0


async def test_a_connection_ended_under_a_statement_is_lost_and_the_next_call_works(
    database, server, catalog
):
    slow = asyncio.ensure_future(database.fetch_value(catalog["slow.read"], seconds=20.0))
    await asyncio.sleep(0.3)
    await server.kill()
    started = time.monotonic()
    with pytest.raises(ConnectionLostError, match=r"slow\.read") as caught:
        await slow
    assert time.monotonic() - started < 2
    assert caught.value.__cause__ is not None
    assert await database.fetch_value(catalog["notes.count"]) == 0


async def test_a_write_that_may_have_run_is_not_repeated(database, server, catalog, notes):
    await notes.add(database, 1, score=0)
    writing = asyncio.ensure_future(database.execute(catalog["slow.write"], seconds=20.0))
    await asyncio.sleep(0.3)
    await server.kill()
    with pytest.raises(ConnectionLostError):
        await writing
    assert (await database.fetch_one(catalog["notes.get"], id=1))["score"] == 0


async def test_a_session_whose_connection_is_lost_refuses_all_but_rollback(
    database, server, catalog, notes
):
    async with database.session() as session:
        await notes.add(session, 1)
        await server.kill()
        with pytest.raises(ConnectionLostError):
            await notes.add(session, 2)
        with pytest.raises(QueryExecutionError, match="rollback"):
            await session.commit()
        await session.rollback()
        await notes.add(session, 3)
        await session.commit()
    assert await notes.ids(database) == [3]


async def test_a_session_that_has_nothing_to_lose_takes_another_connection(database, server, notes):
    async with database.session() as session:
        assert await notes.ids(session) == []
        await server.kill()
        await asyncio.sleep(0.05)
        await notes.add(session, 1)
        await session.commit()
    assert await notes.ids(database) == [1]


async def test_rolling_back_on_a_lost_connection_is_not_an_error(database, server, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        await server.kill()
        await session.rollback()
        await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [2]


async def test_leaving_a_session_whose_connection_is_lost_is_not_an_error(database, server, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        await server.kill()
        await asyncio.sleep(0.05)
    assert await notes.ids(database) == []


async def test_a_commit_on_a_lost_connection_says_so(database, server, notes):
    async def unit() -> None:
        async with database.transaction() as session:
            await notes.add(session, 1)
            await server.kill()

    with pytest.raises(ConnectionLostError):
        await unit()
    assert await notes.ids(database) == []
    assert database.pool.in_use == 0


async def test_connections_that_the_network_cut_are_replaced(database, open_database, catalog, url):
    async with Proxy(url) as proxy:
        bundle = await open_database(at=proxy.url)
        await fill(bundle, catalog)
        proxy.cut()
        await asyncio.sleep(0.05)
        for _ in range(6):
            assert await bundle.fetch_value(catalog["notes.count"]) == 0
        await bundle.aclose()


async def test_a_network_cut_under_a_statement_is_a_lost_connection(
    database, open_database, catalog, url
):
    async with Proxy(url) as proxy:
        bundle = await open_database(at=proxy.url)
        slow = asyncio.ensure_future(bundle.fetch_value(catalog["slow.read"], seconds=1.0))
        await asyncio.sleep(0.2)
        proxy.cut()
        with pytest.raises(ConnectionLostError):
            await slow
        assert await bundle.fetch_value(catalog["notes.count"]) == 0
        await bundle.aclose()


async def test_an_idle_connection_that_a_firewall_swallowed_is_replaced(
    database, open_database, catalog, url, monkeypatch
):
    monkeypatch.setattr("deerstore.database.calls._CHECK_AFTER", 0.05)
    monkeypatch.setattr("deerstore.database.pool._CHECK_SECONDS", 0.3)
    async with Proxy(url) as proxy:
        bundle = await open_database(at=proxy.url)
        await fill(bundle, catalog, 1)
        proxy.stall()
        await asyncio.sleep(0.1)
        assert await bundle.fetch_value(catalog["notes.count"]) == 0
        await bundle.aclose()


async def test_a_statement_that_gets_no_answer_ends_with_the_deadline(
    database, open_database, catalog, url, monkeypatch
):
    monkeypatch.setattr("deerstore.database.calls._SETTLE_SECONDS", 0.5)
    async with Proxy(url) as proxy:
        bundle = await open_database(at=proxy.url, command_timeout=0.3, pool_size=1)
        await bundle.fetch_value(catalog["notes.count"])
        proxy.stall()
        with pytest.raises(QueryExecutionError, match="command_timeout"):
            await bundle.fetch_value(catalog["notes.count"])
        assert await bundle.fetch_value(catalog["notes.count"]) == 0
        await bundle.aclose()


async def test_a_server_that_cannot_be_reached_is_named_without_the_password(open_database, url):
    async with Proxy(url) as proxy:
        nowhere = proxy.url.replace("rootpw", "s3cr3t-word")
    with pytest.raises(ConnectionLostError, match=r"127\.0\.0\.1") as caught:
        await open_database(at=nowhere)
    assert "s3cr3t-word" not in repr(caught.value)


async def test_a_column_added_under_warm_pools_disturbs_nobody(database, open_database, catalog):
    values = dict.fromkeys(("words", "amount", "ratio", "flag", "moment", "document", "raw"))
    bundle = await open_database(pool_size=1)
    for number in range(1, 4):
        await bundle.execute(catalog["kinds.put"], id=number, **values)
        await bundle.fetch_one(catalog["kinds.get"], id=number)
    await database.execute(catalog["kinds.widen"])
    await bundle.execute(catalog["kinds.put"], id=10, **values)
    await bundle.fetch_one(catalog["kinds.get"], id=10)
    async with bundle.transaction() as session:
        await session.execute(catalog["kinds.put"], id=11, **values)
        await session.fetch_one(catalog["kinds.get"], id=11)


async def test_a_result_that_changes_its_shape_is_prepared_anew(
    database, open_database, catalog, notes
):
    bundle = await open_database(pool_size=1)
    values = dict.fromkeys(("words", "amount", "ratio", "flag", "moment", "document", "raw"))
    await bundle.execute(catalog["kinds.put"], id=1, **values)
    for _ in range(3):
        (row,) = await bundle.fetch_all(catalog["kinds.everything"])
    assert "later" not in row
    await database.execute(catalog["kinds.widen"])
    (row,) = await bundle.fetch_all(catalog["kinds.everything"])
    assert row["later"] is None


async def test_a_result_that_changes_its_shape_inside_a_transaction_is_prepared_anew(
    database, open_database, catalog, notes
):
    bundle = await open_database(pool_size=1)
    await notes.add(bundle, 1)
    for _ in range(3):
        await bundle.fetch_all(catalog["kinds.everything"])
    await database.execute(catalog["kinds.widen"])
    async with bundle.transaction() as session:
        await notes.add(session, 2)
        assert await session.fetch_all(catalog["kinds.everything"]) == []
        await notes.add(session, 3)
    assert await notes.ids(bundle) == [1, 2, 3]


async def test_closing_a_database_whose_server_is_gone_is_quiet(open_database, catalog, url):
    async with Proxy(url) as proxy:
        bundle = await open_database(at=proxy.url)
        proxy.cut()
        await bundle.aclose()
        await bundle.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_after_a_restart_of_the_server_the_next_calls_work(
    killable, open_database, catalog, notes, mysql_driver, how
):
    url = await asyncio.to_thread(killable.host.new)
    database = await open_database(at=url.replace("mysql://", f"mysql+{mysql_driver}://"))
    await database.execute(catalog["notes.create_table"])
    await notes.add(database, 1)
    await fill(database, catalog)
    await asyncio.to_thread(getattr(killable, how))
    with pytest.raises(ConnectionLostError):
        await database.fetch_value(catalog["notes.count"])
    await asyncio.to_thread(killable.start)
    for _ in range(6):
        assert await database.fetch_value(catalog["notes.count"]) == 1
    await database.aclose()
    await asyncio.to_thread(killable.host.drop, url)
