"""What each engine is asked for, whatever its defaults are."""

from __future__ import annotations

import sqlite3

import pytest

from deerstore.config import StorageConfig
from deerstore.database.postgres import PostgresEngine


async def look(database, catalog) -> dict[str, object]:
    return dict(await database.fetch_one(catalog["settings.look"]))


@pytest.mark.engines("sqlite", why="pragmas are its own")
async def test_sqlite_runs_in_wal_mode_with_foreign_keys(database, open_database, catalog, url):
    assert await look(database, catalog) == {
        "journal_mode": "wal",
        "synchronous": 1,
        "foreign_keys": 1,
    }
    careful = await open_database(sqlite_synchronous="FULL")
    assert (await look(careful, catalog))["synchronous"] == 2


@pytest.mark.engines("sqlite", why="only there the database is a file")
async def test_the_folder_of_the_file_is_made(open_database, tmp_path, catalog, notes):
    database = await open_database(at=f"sqlite:///{tmp_path}/a/b/new.db")
    await database.execute(catalog["notes.create_table"])
    await notes.add(database, 1)
    await database.aclose()
    raw = sqlite3.connect(tmp_path / "a" / "b" / "new.db")
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


@pytest.mark.engines("postgres", why="the settings have its names")
async def test_postgresql_works_in_utc_and_reads_what_is_committed(open_database, catalog):
    database = await open_database(busy_timeout=7)
    assert await look(database, catalog) == {
        "zone": "UTC",
        "isolation": "read committed",
        "lock_timeout": "7s",
    }
    async with database.session() as session:
        await session.execute(catalog["notes.create_table"])
        assert dict(await session.fetch_one(catalog["settings.look"]))["isolation"] == (
            "read committed"
        )


@pytest.mark.engines("mysql", why="the settings have its names")
async def test_mysql_works_in_utc_strictly_and_reads_what_is_committed(open_database, catalog):
    database = await open_database(busy_timeout=7)
    settings = await look(database, catalog)
    assert "STRICT_TRANS_TABLES" in settings.pop("sql_mode")
    assert settings == {
        "zone": "+00:00",
        "charset": "utf8mb4",
        "lock_wait": 7,
        "autocommit": 1,
    }
    levels = await database.fetch_all(catalog["settings.isolation"])
    assert {row[1] for row in levels} == {"READ-COMMITTED"}


@pytest.mark.engines("mysql", why="the other drivers have no such switch")
async def test_mysql_takes_one_statement_at_a_time(database):
    from deerstore.errors import QueryExecutionError

    async def two(connection) -> None:
        await connection._cursor.execute("SELECT 1; SELECT 2")

    with pytest.raises(QueryExecutionError):
        await database.on_connection(two, writes=False)


def test_behind_pgbouncer_nothing_is_kept_on_a_server_connection():
    engine = PostgresEngine(
        StorageConfig(database_url="postgresql://u@localhost/d", pgbouncer=True)
    )
    assert engine._kwargs["statement_cache_size"] == 0
    assert set(engine._kwargs["server_settings"]) <= {"TimeZone", "application_name"}
