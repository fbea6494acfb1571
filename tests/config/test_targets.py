"""Each driver's own form of one URL, and that the live servers take them."""

from __future__ import annotations

import asyncio
import os
import ssl
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from deerstore.config import StorageConfig
from deerstore.config.url import parse_url
from deerstore.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.hosts import Host

HOSTILE = "p@ss:/?#[]%20 é'\"\\&=+$,日本 \t;"


def escaped(text: str) -> str:
    return quote(text, safe="")


def targets(url: str, **settings: Any):
    return StorageConfig(database_url=url, **settings).targets


def test_asyncpg_gets_keywords():
    kwargs = targets(
        "postgresql://u:p%40@a:1,[::1]/d?sslmode=verify-full&sslrootcert=/c a.pem"
        "&options=-c%20work_mem%3D5MB&target_session_attrs=primary&connect_timeout=3",
        postgres_schema='o"dd',
    ).asyncpg_kwargs()
    assert kwargs == {
        "host": ["a", "::1"],
        "port": [1, 5432],
        "user": "u",
        "password": "p@",
        "database": "d",
        "timeout": 3,
        "ssl": "verify-full",
        "dsn": "postgresql://?sslrootcert=%2Fc%20a.pem",
        "target_session_attrs": "primary",
        "server_settings": {
            "application_name": "deerstore",
            "TimeZone": "UTC",
            "default_transaction_isolation": "read committed",
            "options": "-c work_mem=5MB",
            "search_path": '"o""dd"',
        },
    }


def test_behind_pgbouncer_nothing_is_sent_that_it_refuses():
    form = targets("postgresql://u@h/d", pgbouncer=True)
    kwargs = form.asyncpg_kwargs()
    assert kwargs["statement_cache_size"] == 0
    assert kwargs["server_settings"] == {"application_name": "deerstore", "TimeZone": "UTC"}
    assert "options" not in form.psycopg_conninfo()
    for extra in ({"postgres_schema": "s"}, {"database_url": "postgresql://h/d?options=-cx=1"}):
        with pytest.raises(ConfigError, match="pgbouncer refuses session settings"):
            StorageConfig(**{"database_url": "postgresql://h/d", "pgbouncer": True, **extra})


def test_mysql_tls_follows_the_mode(tmp_path):
    plain = targets("mysql://u@h/d")
    assert "ssl" not in plain.aiomysql_kwargs()
    required = targets("mysql://u@h/d?ssl=true")
    context = required.aiomysql_kwargs()["ssl"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert "ssl_verify_cert=false" in required.yoyo_url()
    full = targets("mysql://u@h/d?ssl_mode=VERIFY_IDENTITY").aiomysql_kwargs()["ssl"]
    assert (full.verify_mode, full.check_hostname) == (ssl.CERT_REQUIRED, True)
    off = targets("mysql://u@h/d?sslmode=disable")
    assert off.pymysql_kwargs()["ssl_disabled"] is True
    with pytest.raises(ConfigError, match="TLS file"):
        targets(f"mysql://u@h/d?ssl_ca={tmp_path}/none.pem").aiomysql_kwargs()


def test_a_driver_of_another_engine_is_refused():
    with pytest.raises(ConfigError, match="the configured driver is mysql, not postgres"):
        targets("mysql://u@h/d").asyncpg_kwargs()


def test_no_form_shows_the_password_by_itself():
    form = targets("postgresql://u:s3cret@h/d")
    assert "s3cret" not in repr(form)


@pytest.mark.parametrize("name", ["plain.db", "odd ?#%20é.db"])
def test_yoyo_opens_the_sqlite_file_that_deerstore_means(tmp_path, name):
    import yoyo

    config = StorageConfig(sqlite_dir=tmp_path / "a b", sqlite_file=name)
    (tmp_path / "a b").mkdir()
    backend = yoyo.get_backend(config.targets.yoyo_url())
    backend.connection.close()
    assert os.listdir(tmp_path / "a b") == [name]
    assert config.targets.sqlite_path() == str(tmp_path / "a b" / name)


# -- live ------------------------------------------------------------------------------------------


@pytest.fixture
def hostile(
    engine: str, hosts: Callable[[str], Host]
) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """A user, a password and a database with every awkward character, and ways to their server."""
    admin = hosts(engine)
    run: Any = admin._run
    parts: Any = parse_url(admin._admin_url).hosts[0]
    host = f"[{parts[0]}]" if ":" in parts[0] else parts[0]
    user, name = f"cfg u:s@r/é?#'\\{os.getpid()}", f"cfg d/b?#'é %20{os.getpid()}"
    if engine == "postgres":
        directory = run("SHOW unix_socket_directories")[0][0].split(",")[0].strip()
        ways = [f"{host}:{parts[1]}", f"127.0.0.1:1,{host}:{parts[1]}"]
        if os.path.isdir(directory) and parts[0] == "127.0.0.1":
            ways.append(f"{escaped(directory)}:{parts[1]}")
        role = '"' + user.replace('"', '""') + '"'
        secret = HOSTILE.replace("'", "''").replace("%", "%%")
        run(f"CREATE ROLE {role} LOGIN PASSWORD '{secret}'")
        run(f'CREATE DATABASE "{name}" OWNER {role}'.replace("%", "%%"))
        yield user, {"name": name}, ways
        run(f'DROP DATABASE "{name}" WITH (FORCE)'.replace("%", "%%"))
        run(f"DROP ROLE {role}")
        return
    name = name.replace("/", "")  # a directory on the server
    ways = [f"{host}:{parts[1]}"]
    if parts[0] == "127.0.0.1":
        ways.append(f"[::ffff:127.0.0.1]:{parts[1]}")
        socket, data = run("SELECT @@socket, @@datadir")[0]
        path = os.path.join(data, socket)
        if os.path.exists(path) and len(path) < 100:
            ways.append(escaped(path))
    for source in ("localhost", "%"):
        run("CREATE USER %s@%s IDENTIFIED BY %s", (user, source, HOSTILE))
        run("GRANT ALL ON *.* TO %s@%s", (user, source))
    run(f"CREATE DATABASE `{name}`")
    yield user, {"name": name}, ways
    run(f"DROP DATABASE `{name}`")
    for source in ("localhost", "%"):
        run("DROP USER %s@%s", (user, source))


POSTGRES_FACTS = """
    SELECT current_user, current_database(), current_setting('TimeZone'),
           current_setting('default_transaction_isolation'), current_setting('search_path'),
           current_setting('client_encoding'), current_setting('application_name')
"""
MYSQL_FACTS = """
    SELECT SUBSTRING_INDEX(user(), '@', 2), database(), @@time_zone, @@tx_isolation, @@sql_mode,
           @@character_set_client
"""


@pytest.mark.engines("postgres", why="its drivers are asyncpg, psycopg and yoyo over psycopg")
async def test_every_postgres_driver_reaches_the_same_place(hostile):
    import asyncpg
    import psycopg
    import yoyo

    user, place, ways = hostile

    def through_yoyo(url: str) -> tuple[Any, ...]:
        backend = yoyo.get_backend(url)
        try:
            return tuple(backend.execute(POSTGRES_FACTS).fetchone())
        finally:
            backend.connection.close()

    for way in ways:
        form = targets(
            f"postgresql://{escaped(user)}:{escaped(HOSTILE)}@{way}/{escaped(place['name'])}"
            "?application_name=a%20b'c%5C&connect_timeout=4",
            postgres_schema="s p'a\\ce",
        )
        connection = await asyncpg.connect(**form.asyncpg_kwargs())
        seen = [tuple(await connection.fetchrow(POSTGRES_FACTS))]
        await connection.close()
        async with await psycopg.AsyncConnection.connect(form.psycopg_conninfo()) as other:
            cursor = await other.execute(POSTGRES_FACTS)
            seen.append(tuple(await cursor.fetchone() or ()))
        seen.append(await asyncio.to_thread(through_yoyo, form.yoyo_url()))
        assert seen == 3 * [
            (user, place["name"], "UTC", "read committed", '"s p\'a\\ce"', "UTF8", "a b'c\\")
        ]


@pytest.mark.engines("mysql", why="its drivers are aiomysql, asyncmy and yoyo over PyMySQL")
async def test_every_mysql_driver_reaches_the_same_place(hostile):
    import aiomysql
    import asyncmy
    import pymysql
    import yoyo

    user, place, ways = hostile

    def through_pymysql(kwargs: dict[str, Any]) -> tuple[Any, ...]:
        with pymysql.connect(**kwargs) as connection, connection.cursor() as cursor:
            cursor.execute(MYSQL_FACTS)
            return tuple(cursor.fetchone())

    def through_yoyo(url: str) -> tuple[Any, ...]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # yoyo calls PyMySQL by its old names
            backend = yoyo.get_backend(url)
            try:
                return tuple(backend.execute(MYSQL_FACTS).fetchone())
            finally:
                backend.connection.close()

    for way in ways:
        form = targets(
            f"mysql://{escaped(user)}:{escaped(HOSTILE)}@{way}/{escaped(place['name'])}"
            "?application_name=a%20b'c%5C&connect_timeout=4"
        )
        seen = []
        for driver in (aiomysql, asyncmy):
            connection = await driver.connect(**form.aiomysql_kwargs())
            cursor = connection.cursor()
            cursor = await cursor if asyncio.iscoroutine(cursor) else cursor
            await cursor.execute(MYSQL_FACTS)
            seen.append(tuple(await cursor.fetchone()))
            await cursor.close()
            await connection.ensure_closed()
        seen.append(await asyncio.to_thread(through_pymysql, form.pymysql_kwargs()))
        seen.append(await asyncio.to_thread(through_yoyo, form.yoyo_url()))
        assert len(set(seen)) == 1
        shown_user, name, zone, isolation, mode, charset = seen[0]
        assert shown_user.startswith("cfg u:s@r/é?#'\\")
        assert (name, zone, isolation, charset) == (
            place["name"],
            "+00:00",
            "READ-COMMITTED",
            "utf8mb4",
        )
        assert "STRICT_TRANS_TABLES" in mode
