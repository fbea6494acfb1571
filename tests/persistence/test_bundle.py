"""The bundle: made from a configuration, closed in order, gone without a trace."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import deerstore
import deerstore.persistence
from deerstore.config import StorageConfig
from deerstore.errors import ConfigError, DeerstoreError, MissingExtraError
from deerstore.persistence import (
    AppPersistence,
    create_persistence,
    create_persistence_from_database_config,
    create_persistence_from_storage_config,
)
from tests.persistence.states import place, put, state

if TYPE_CHECKING:
    from pathlib import Path


async def test_open_sets_up_and_closes(storage_url: str):
    async with deerstore.open(storage_url) as persistence:
        assert isinstance(persistence, AppPersistence)
        config = await put(persistence.checkpointer, place("t"), state(a=[1]))
        await persistence.store.aput(("n",), "k", {"v": 1})
        async with persistence.session_factory() as session:
            assert session.database is persistence.database is persistence.session_factory.database
    with pytest.raises(DeerstoreError, match="closed"):
        await persistence.checkpointer.aget_tuple(config)
    async with deerstore.open(StorageConfig(database_url=storage_url)) as persistence:
        assert await persistence.checkpointer.aget_tuple(config) is not None
        assert await persistence.store.aget(("n",), "k") is not None


async def test_setup_twice_changes_nothing(persistence: AppPersistence):
    before = await shape(persistence)
    report = await persistence.setup()
    assert report.applied == ()
    assert await shape(persistence) == before


async def shape(persistence: AppPersistence) -> Any:
    from deerstore.database.catalog import deerstore_queries

    queries = deerstore_queries()
    return [
        await persistence.database.fetch_tuples(queries[name])
        for name in ("schema.tables", "schema.columns", "schema.indexes")
    ]


async def test_many_setups_at_once_on_an_empty_database(config: StorageConfig):
    code = """
        import asyncio, sys
        from deerstore.config import StorageConfig
        from deerstore.persistence import create_persistence_from_storage_config

        async def main():
            config = StorageConfig(database_url=sys.argv[1])
            async with await create_persistence_from_storage_config(config) as persistence:
                await persistence.setup()
                await persistence.store.aput(("n",), sys.argv[2], {"v": 1})

        asyncio.run(main())
    """
    url = config.database_url.get_secret_value()
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", textwrap.dedent(code), url, f"k{number}"
        )
        for number in range(4)
    ]
    assert [await each.wait() for each in running] == [0] * 4
    async with await create_persistence_from_storage_config(config) as persistence:
        assert len(await persistence.store.asearch(("n",))) == 4


async def test_the_three_ways_to_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    section = {"backend": "sqlite", "sqlite_dir": str(tmp_path / "data")}
    where = str(tmp_path / "data" / "deerflow.db")
    for shape_ in (section, SimpleNamespace(**section)):
        async with await create_persistence_from_database_config(shape_) as persistence:
            assert persistence.database.config.location == where
    (tmp_path / "config.yaml").write_text(f"storage: {{sqlite_dir: {tmp_path / 'data'}}}")
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(tmp_path / "config.yaml"))
    async with await create_persistence() as persistence:
        assert persistence.database.config.location == where
    async with deerstore.open() as persistence:
        assert persistence.database.config.location == where
    with pytest.raises(ConfigError, match="is not a URL"):
        async with deerstore.open("data/deerflow.db"):
            pass
    with pytest.raises(ConfigError, match="must be a StorageConfig, not str"):
        await create_persistence_from_storage_config("sqlite:///x.db")  # type: ignore[arg-type]
    assert set(deerstore.persistence.__all__) >= {
        "AppPersistence",
        "create_persistence",
        "create_persistence_from_database_config",
        "create_persistence_from_storage_config",
        "storage_config_from_database_config",
    }


async def test_every_part_is_closed_and_the_first_error_is_raised(migrated_config):
    persistence = await create_persistence_from_storage_config(migrated_config)
    await persistence.store.aput(("n",), "k", {})
    closed: list[str] = []

    def failing(name: str, close: Any) -> Any:
        async def wrapped(*args: Any) -> None:
            closed.append(name)
            await close(*args)
            raise RuntimeError(name)

        return wrapped

    persistence.store.finish = failing("store", persistence.store.finish)  # type: ignore[method-assign]
    parts = persistence._parts
    parts.aclose = failing("connections", parts.aclose)  # type: ignore[method-assign]
    database = persistence.database
    database.aclose = failing("database", database.aclose)  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="store"):
            await persistence.aclose()
    assert closed == ["store", "connections", "database"]


async def test_closing_twice_and_at_once_is_harmless(migrated_config):
    persistence = await create_persistence_from_storage_config(migrated_config)
    await persistence.checkpointer.aget_tuple(place("t"))
    await asyncio.gather(persistence.aclose(), persistence.aclose())
    await persistence.aclose()


@pytest.mark.parametrize("pause", [0, 0.001, 0.004])
async def test_work_in_flight_ends_before_the_bundle_is_closed(migrated_config, pause: float):
    persistence = await create_persistence_from_storage_config(migrated_config)
    # LangGraph makes copies of a saver for its graphs.
    savers = [persistence.checkpointer, copy.copy(persistence.checkpointer)]
    writing = [
        asyncio.ensure_future(put(savers[n % 2], place(f"t{n}"), state(a=["x" * 9999])))
        for n in range(12)
    ]
    await asyncio.sleep(pause)
    await persistence.aclose()
    assert all(isinstance(each, dict) for each in await asyncio.gather(*writing))
    with pytest.raises(DeerstoreError, match="the checkpointer is closed"):
        await persistence.checkpointer.aget_tuple(place("t1"))
    async with await create_persistence_from_storage_config(migrated_config) as again:
        assert len([each async for each in again.checkpointer.alist(None)]) == 12


async def test_a_failed_setup_leaves_a_bundle_that_can_be_closed(engine: str, tmp_path: Path):
    url = {
        "sqlite": "sqlite:////proc/no/such/place/x.db",
        "postgres": "postgresql://u:p@127.0.0.1:1/d",
        "mysql": "mysql://u:p@127.0.0.1:1/d",
    }[engine]
    persistence = await create_persistence_from_storage_config(StorageConfig(database_url=url))
    with pytest.raises((DeerstoreError, OSError)):
        await persistence.setup()
    await persistence.aclose()


@pytest.mark.parametrize("how", ["forgotten", "failed_setup", "failed_start", "closed_twice"])
def test_the_interpreter_exits_whatever_was_left_open(migrated_url: str, how: str):
    code = """
        import asyncio, sys
        from deerstore.config import StorageConfig
        from deerstore.persistence import create_persistence_from_storage_config
        from tests.persistence.states import place, put, state

        async def main():
            url, how = sys.argv[1:]
            if how == "failed_start":
                url = {"s": "sqlite:////proc/none/x.db"}.get(url[0], url.partition("://")[0] +
                    "://u:p@127.0.0.1:1/d")
            persistence = await create_persistence_from_storage_config(
                StorageConfig(database_url=url)
            )
            if how == "failed_setup":
                async def broken():
                    raise RuntimeError("broken")
                persistence._parts.setup = broken
            try:
                await persistence.setup()
                await put(persistence.checkpointer, place("t"), state(a=[1]))
                await persistence.store.aput(("n",), "k", {})
                session = persistence.session_factory()
                await session.__aenter__()
            except Exception as error:
                print(type(error).__name__)
            if how == "closed_twice":
                await persistence.aclose()
                await persistence.aclose()
            print("end")

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), migrated_url, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert done.stdout.splitlines()[-1:] == ["end"], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("aiosqlite", "sqlite"),
        ("langgraph.checkpoint.sqlite", "sqlite"),
        ("asyncpg", "postgres"),
        ("psycopg", "postgres"),
        ("langgraph.checkpoint.postgres", "postgres"),
        ("aiomysql", "mysql"),
        ("asyncmy", "mysql"),
        ("langgraph.checkpoint.mysql", "mysql"),
    ],
)
def test_a_missing_package_names_its_extra(package: str, extra: str):
    code = """
        import asyncio, sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == sys.argv[1] or name.startswith(sys.argv[1] + "."):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
        from deerstore.config import StorageConfig
        from deerstore.errors import MissingExtraError
        from deerstore.persistence import create_persistence_from_storage_config

        async def main():
            url = {"sqlite": "sqlite:////tmp/x.db"}.get(sys.argv[2], sys.argv[2] + "://h/d")
            try:
                await create_persistence_from_storage_config(StorageConfig(database_url=url))
            except MissingExtraError as error:
                print(error.extra, error)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), package, extra],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith(f"{extra} "), done.stderr
    assert f"deerstore[{extra}]" in done.stdout
    assert issubclass(MissingExtraError, ImportError)


async def test_a_lost_connection_is_replaced(migrated_config, engine: str, host: Any):
    if engine == "sqlite":
        pytest.skip("there is no connection to lose")
    async with await create_persistence_from_storage_config(migrated_config) as persistence:
        config = await put(persistence.checkpointer, place("t"), state(a=[1]))
        await persistence.store.aput(("n",), "k", {"v": 1})
        if engine == "postgres":
            host._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = %s AND pid <> pg_backend_pid()",
                (persistence.database.config.db_name,),
            )
        else:
            for identifier, _, _ in host._clients(persistence.database.config.db_name):
                host._run(f"KILL {identifier}")
        await asyncio.sleep(0.2)
        found = await persistence.checkpointer.aget_tuple(config)
        assert found is not None
        assert await persistence.store.aget(("n",), "k") is not None


@pytest.mark.engines("mysql", why="only there are the ids' columns changed after LangGraph's setup")
async def test_langgraphs_tables_compare_ids_bytewise(persistence: AppPersistence, host: Any):
    rows = host._run(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = %s AND data_type = 'varchar' "
        "AND table_name IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'store')",
        (persistence.database.config.db_name,),
    )
    assert len(rows) == 19
    assert {row[2] for row in rows} <= {"utf8mb4_nopad_bin", "utf8mb4_0900_bin"}


async def test_a_setup_killed_between_a_statement_and_its_note_is_completed(
    persistence: AppPersistence, engine: str
):
    """LangGraph notes each statement after it ran; the last note of each ledger is taken back."""
    database = persistence.database

    def forget(table: str) -> str:
        inner = f"(SELECT MAX(v) AS v FROM (SELECT v FROM {table}) AS noted)"
        return f"DELETE FROM {table} WHERE v = {inner}"

    tables = ["store_migrations"] + (["checkpoint_migrations"] if engine != "sqlite" else [])
    for _ in range(3):
        for table in tables:
            await run_sql(database, forget(table))
        await persistence.setup()
        await put(persistence.checkpointer, place("t"), state(a=[1]))
        await persistence.store.aput(("n",), "k", {})


async def run_sql(database: Any, sql: str) -> None:
    """A statement of the test's own, outside of every catalog."""

    async def work(connection: Any) -> None:
        if database.engine == "sqlite":
            await connection.apply(lambda raw: raw.execute(sql).fetchall())
        elif database.engine == "postgres":
            await connection._raw.execute(sql)
        else:
            async with connection._raw.cursor() as cursor:
                await cursor.execute(sql)

    await database.on_connection(work, writes=True)
