"""What an error says, and what it must not say."""

from __future__ import annotations

import logging
import sys
import traceback
from urllib.parse import urlsplit, urlunsplit

import pytest

from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.errors import (
    ConfigError,
    ConnectionLostError,
    DeerstoreError,
    MissingExtraError,
    QueryExecutionError,
)

SECRET = "s3cr3t-value"


async def failure(work) -> QueryExecutionError:
    with pytest.raises(QueryExecutionError) as caught:
        await work
    return caught.value


async def test_each_kind_of_constraint_is_told_by_its_sqlstate(database, catalog, notes):
    await notes.add(database, 1)
    for sqlstate, number, fields in (
        ("23505", 1, {}),
        ("23505", 2, {"author": "author 1"}),
        ("23503", 2, {"parent_id": 77}),
        ("23502", 2, {"author": None}),
        ("23514", 2, {"score": -1}),
    ):
        error = await failure(notes.add(database, number, **fields))
        assert error.sqlstate == sqlstate
    await notes.add(database, 3, parent_id=1)
    error = await failure(database.execute(catalog["notes.remove"], id=1))
    assert error.sqlstate == "23503"


async def test_an_error_names_the_query_its_place_and_its_parameters_but_no_value(
    database, catalog, notes, engine
):
    await notes.add(database, 1, author=SECRET)
    error = await failure(notes.add(database, 2, author=SECRET, body=SECRET))
    assert error.query == "notes.add"
    assert error.file.endswith(f"sql/{engine}/notes.sql")
    assert error.file in str(error)
    assert f"{error.file}:{error.line}" in str(error)
    assert error.parameters == ("id", "author", "body", "score", "parent_id")
    assert "notes.add" in str(error)
    assert "body" in str(error)
    assert SECRET not in str(error)
    assert SECRET not in repr(error)
    assert error.__cause__ is not None
    assert type(error.__cause__).__module__.partition(".")[0] in (
        "sqlite3", "asyncpg", "pymysql", "asyncmy",
    )  # fmt: skip


async def test_an_unknown_name_in_a_query_is_told_in_the_servers_words(database, catalog):
    error = await failure(database.fetch_value(catalog["notes.mistaken"]))
    assert "nowhere" in str(error)


async def test_no_value_stands_in_the_message_of_an_error_anywhere_in_the_tree(
    database, catalog, notes
):
    await notes.add(database, 1, author=SECRET)
    for work in (
        notes.add(database, 2, author=SECRET),
        database.execute_many(
            catalog["notes.add_uncounted"],
            [{"id": 5, "author": "x"}, {"id": 6, "author": SECRET}],
        ),
        database.execute(catalog["notes.add_series"], authors=["y", SECRET]),
    ):
        assert SECRET not in "".join(traceback.format_exception_only(await failure(work)))
    async with database.session() as session:
        error = await failure(notes.add(session, 2, author=SECRET))
        assert SECRET not in "".join(traceback.format_exception_only(error))


async def test_echo_sql_logs_the_name_and_the_text_and_no_value(
    open_database, database, catalog, notes, sql_log
):
    loud = await open_database(echo_sql=True)
    await notes.add(loud, 1, author=SECRET)
    async with loud.session() as session:
        await session.fetch_all(catalog["notes.list"])
    messages = [record.getMessage() for record in sql_log.records]
    assert len(messages) == 2
    assert "notes.add" in messages[0]
    assert "INTO notes" in messages[0]
    assert "notes.list" in messages[1]
    assert SECRET not in sql_log.text
    sql_log.clear()
    await notes.ids(database)
    assert sql_log.records == []


async def test_warnings_of_the_server_are_not_logged_with_their_values(
    database, catalog, notes, caplog
):
    caplog.set_level(logging.DEBUG)
    await notes.add(database, 1, author=SECRET)
    assert await database.execute(catalog["notes.add_quietly"], id=2, author=SECRET) == 0
    assert SECRET not in "".join(
        record.getMessage() for record in caplog.records if record.levelno >= logging.INFO
    )


def at(url: str, **parts: str) -> str:
    """A URL with another user, password or database."""
    split = urlsplit(url)
    user = parts.get("user", split.username)
    host = split.netloc.rpartition("@")[2]
    password = parts.get("password", split.password or "")
    return urlunsplit(
        split._replace(
            netloc=f"{user}:{password}@{host}", path=f"/{parts.get('name', split.path[1:])}"
        )
    )


@pytest.mark.engines("postgres", "mysql", why="an SQLite file is made when it is missing")
async def test_a_missing_database_says_what_to_run(open_database, url):
    with pytest.raises(ConfigError, match=r"no_such_place.*CREATE DATABASE") as caught:
        await open_database(at=at(url, name="no_such_place", password=urlsplit(url).password or ""))
    assert caught.value.__cause__ is not None


@pytest.mark.engines("postgres", "mysql", why="SQLite has no users")
async def test_a_refused_login_is_told_without_the_password(open_database, url):
    with pytest.raises(ConfigError, match="username") as caught:
        await open_database(at=at(url, user="nobody_here", password=SECRET))
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.engines("sqlite", why="only there the database is a file")
async def test_a_file_that_cannot_be_opened_is_named(open_database, tmp_path):
    (tmp_path / "not-a-file").mkdir()
    with pytest.raises(ConnectionLostError, match="not-a-file"):
        await open_database(at=f"sqlite:///{tmp_path}/not-a-file")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database" * 100)
    with pytest.raises(DeerstoreError, match=r"broken\.db"):
        await open_database(at=f"sqlite:///{broken}")


@pytest.mark.parametrize(
    ("url", "module", "package", "extra"),
    [
        ("sqlite:///x.db", "sqlite", "aiosqlite", "sqlite"),
        ("postgresql://localhost/x", "postgres", "asyncpg", "postgres"),
        ("mysql://localhost/x", "mysql", "aiomysql", "mysql"),
        ("mysql+asyncmy://localhost/x", "mysql", "asyncmy", "mysql"),
    ],
)
def test_a_missing_package_names_the_extra(monkeypatch, url, module, package, extra):
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name == f"deerstore.database.{module}":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"deerstore\[{extra}\]") as caught:
        Database(StorageConfig(database_url=url))
    assert caught.value.extra == extra
