"""What the counts share: a warm database of one connection, with the benchmark's rows in it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiosqlite
import pytest

import deerstore
from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.workbench.bench import OPERATIONS, repositories
from deerstore.workbench.bench.seed import seed
from tests.database.proxy import Proxy

_PACKAGE = str(Path(deerstore.__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mysql_driver" in metafunc.fixturenames:
        metafunc.parametrize("mysql_driver", ["aiomysql", "asyncmy"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The second MySQL driver doubles the tests of MySQL only."""

    def is_doubled(item: pytest.Item) -> bool:
        params = (getattr(item, "callspec", None) and item.callspec.params) or {}
        return params.get("mysql_driver") == "asyncmy" and params.get("engine") != "mysql"

    left_out = [item for item in items if is_doubled(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_doubled(item)]


class Trips:
    """Counts trips since it was last asked."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._last = 0

    def __call__(self) -> int:
        now = self._read()
        spent, self._last = now - self._last, now
        return spent


@pytest.fixture
async def counted(
    engine, mysql_driver, migrated_url, monkeypatch
) -> AsyncIterator[tuple[Database, Trips]]:
    """The database, and how often it was asked: on the wire, or on the connection's thread."""
    if engine == "sqlite":
        count = 0
        execute = aiosqlite.Connection._execute

        async def counting(self, *args, **kwargs):
            nonlocal count
            count += 1
            return await execute(self, *args, **kwargs)

        monkeypatch.setattr(aiosqlite.Connection, "_execute", counting)
        async with Database(StorageConfig(database_url=migrated_url, pool_size=1)) as database:
            await seed(repositories(database))
            yield database, Trips(lambda: count)
        return
    async with Proxy(migrated_url) as proxy:
        url = proxy.url.replace("mysql://", f"mysql+{mysql_driver}://")
        async with Database(StorageConfig(database_url=url, pool_size=1)) as database:
            await seed(repositories(database))
            yield database, Trips(lambda: proxy.trips)


@contextmanager
def function_calls() -> Iterator[Callable[[], int]]:
    """How often a function of deerstore is entered, or gone on with after an await."""
    count = 0

    def profile(frame, event, _) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            count += 1

    sys.setprofile(profile)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


async def measured(database: Database, trips: Trips) -> AsyncIterator[tuple[str, int, int]]:
    """Each operation's name, its trips and deerstore's function calls, once it is warm."""
    to = repositories(database)
    for operation in OPERATIONS:
        for number in range(8):
            key = f"counted-{operation.name[-20:]}-{number}"
            if operation.prepare is not None:
                await operation.prepare(to, key)
            given = operation.given(key)
            trips()
            with function_calls() as calls:
                await operation.call(to, given)
                entered = calls()
            spent = trips()
        yield operation.name, spent, entered
