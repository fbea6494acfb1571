"""What the tests of the facade share: two tables of their own, on every engine and driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.queries import QueryCatalog, load_queries
from tests.database.server import Server

Opener = Callable[..., Awaitable[Database]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mysql_driver" in metafunc.fixturenames:
        metafunc.parametrize("mysql_driver", ["aiomysql", "asyncmy"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The second MySQL driver doubles the tests of MySQL only."""

    def is_for_another_engine(item: pytest.Item) -> bool:
        params = getattr(getattr(item, "callspec", None), "params", {})
        return params.get("mysql_driver") == "asyncmy" and params.get("engine") != "mysql"

    left_out = [item for item in items if is_for_another_engine(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_for_another_engine(item)]


@pytest.fixture(scope="session")
def catalog() -> QueryCatalog:
    """The queries of these tests."""
    return load_queries(Path(__file__).parent / "sql")


@pytest.fixture
def url(storage_url: str, mysql_driver: str) -> str:
    """The URL of a fresh database, with the driver that this test is for."""
    return storage_url.replace("mysql://", f"mysql+{mysql_driver}://")


@pytest.fixture
async def open_database(url: str) -> AsyncIterator[Opener]:
    """Opens bundles on this test's database, each with settings of its own."""
    opened: list[Database] = []

    async def open_(**settings: Any) -> Database:
        at = settings.pop("at", url)
        database = await Database.open(StorageConfig(database_url=at, **settings))
        opened.append(database)
        return database

    yield open_
    for database in opened:
        await database.aclose()


@pytest.fixture
async def database(open_database: Opener, catalog: QueryCatalog) -> Database:
    """A database with the tables of these tests."""
    database = await open_database()
    await database.execute(catalog["notes.create_table"])
    await database.execute(catalog["kinds.create_table"])
    return database


class Notes:
    """Short words for what nearly every test does."""

    def __init__(self, catalog: QueryCatalog) -> None:
        self._catalog = catalog

    async def add(self, executor: Any, number: int, **fields: Any) -> int:
        values = {"author": f"author {number}", "body": None, "score": None, "parent_id": None}
        return await executor.execute(self._catalog["notes.add"], id=number, **{**values, **fields})

    async def ids(self, executor: Any) -> list[int]:
        return [row["id"] for row in await executor.fetch_all(self._catalog["notes.list"])]


@pytest.fixture
def notes(catalog: QueryCatalog) -> Notes:
    return Notes(catalog)


@pytest.fixture
def sql_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the logger of statements writes."""
    with caplog.at_level("INFO", logger="deerstore.sql"):
        yield caplog


@pytest.fixture
def server(engine: str, storage_url: str) -> Server | None:
    """The server behind this test's database; None on SQLite."""
    return None if engine == "sqlite" else Server(engine, storage_url)
