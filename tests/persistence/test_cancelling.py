"""Cancelled calls of the checkpointer and the Store, while the server keeps them waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql
import pytest
from langgraph.store.base import PutOp
from psycopg.pq import PipelineStatus

from deerstore.errors import InvalidValueError, PoolTimeoutError
from deerstore.persistence import AppPersistence, create_persistence_from_storage_config
from tests.database.server import Server
from tests.fixtures.fix_databases import configured
from tests.persistence.states import place, put, state

_TABLES = ("checkpoints", "store")
_LOCKING = pytest.mark.engines("postgres", "mysql", why="a reader on SQLite waits for nobody")


@contextmanager
def locked(engine: str, url: str) -> Iterator[None]:
    """LangGraph's tables, locked by somebody else."""
    if engine == "postgres":
        with psycopg.connect(url) as other:
            for table in _TABLES:
                other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield
            other.rollback()
        return
    parts = urlsplit(url)
    other = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
    with other, other.cursor() as cursor:
        database = parts.path.lstrip("/")
        tables = ", ".join(f"{database}.{table} WRITE" for table in _TABLES)
        cursor.execute(f"LOCK TABLES {tables}")
        yield


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[AppPersistence]:
    async with await create_persistence_from_storage_config(
        configured(url, **settings)
    ) as persistence:
        yield persistence


async def waiting_statements(server: Server) -> list[str]:
    """What still runs on the server, after a moment of grace."""
    for _ in range(40):
        found = [text for text in await server.busy() if text and not text.startswith("LOCK")]
        if not found:
            return []
        await asyncio.sleep(0.05)
    return found


@_LOCKING
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("call", ["aget_tuple", "aput", "store.aget", "store.aput"])
async def test_a_call_that_is_cancelled_again_and_again_stops_on_the_server(
    migrated_url: str, engine: str, call: str, times: int
):
    async with opened(migrated_url) as persistence:
        saver, store = persistence.checkpointer, persistence.store
        await put(saver, place("t"), state(a=[1]))
        await store.aput(("n",), "k", {})
        calls: dict[str, Any] = {
            "aget_tuple": lambda: saver.aget_tuple(place("t")),
            "aput": lambda: put(saver, place("t"), state(a=[2])),
            "store.aget": lambda: store.aget(("n",), "k"),
            "store.aput": lambda: store.aput(("n",), "k", {"v": 1}),
        }
        with locked(engine, migrated_url):
            task = asyncio.ensure_future(calls[call]())
            await asyncio.sleep(0.1)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await waiting_statements(Server(engine, migrated_url)) == []
        assert await store.aget(("n",), "k") is not None
        assert (await saver.aget_tuple(place("t"))).checkpoint["channel_values"] == {"a": [1]}


async def test_a_failing_operation_of_the_store_fails_for_its_caller_only(
    persistence: AppPersistence, monkeypatch: pytest.MonkeyPatch
):
    store = persistence.store
    answer = store._answer

    async def failing(ops: Any) -> Any:
        if any(isinstance(op, PutOp) and op.key == "bad" for op in ops):
            raise InvalidValueError("too large for this server")
        return await answer(ops)

    monkeypatch.setattr(store, "_answer", failing)
    results = await asyncio.gather(
        *(store.aput(("n",), key, {}) for key in ("a", "bad", "b")), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), InvalidValueError, type(None)]


@_LOCKING
async def test_waiting_for_a_connection_is_not_a_matter_of_command_timeout(
    migrated_url: str, engine: str
):
    async with opened(
        migrated_url, pool_size=1, acquire_timeout=0.5, command_timeout=0.4
    ) as persistence:
        saver = persistence.checkpointer
        pool = getattr(persistence._parts, "_links", persistence.database.pool)
        held = await pool.acquire()
        try:
            with pytest.raises(PoolTimeoutError):
                await saver.aget_tuple(place("t"))
        finally:
            pool.release(held)
        assert await saver.aget_tuple(place("t")) is None


@pytest.mark.engines("postgres", why="only psycopg has pipelines")
async def test_a_connection_that_is_still_in_a_pipeline_is_not_lent_again(migrated_url: str):
    async with opened(migrated_url, pool_size=1) as persistence:
        saver = persistence.checkpointer
        async with saver._cursor() as cursor:
            # As a cancellation between two steps of psycopg leaves it.
            cursor.connection.pgconn.enter_pipeline_mode()
        async with saver._cursor() as cursor:
            assert cursor.connection.pgconn.pipeline_status == PipelineStatus.OFF
        await put(saver, place("t"), state(a=[1]))
    async with opened(migrated_url) as persistence:
        assert await persistence.checkpointer.aget_tuple(place("t")) is not None


@pytest.mark.engines(
    "postgres", why="the others' savers run over the facade, which has its own test"
)
async def test_a_deadlock_is_tried_again(migrated_url: str):
    async with opened(migrated_url) as persistence:
        saver = persistence.checkpointer
        config = await put(saver, place("t"), state(a=[1]))
        await saver.aput_writes(config, [("a", 1)], "task")

        async with await psycopg.AsyncConnection.connect(migrated_url) as other:
            await other.execute("SELECT 1 FROM checkpoint_writes FOR UPDATE")
            deleting = asyncio.ensure_future(saver.adelete_thread("t"))
            await asyncio.sleep(0.3)
            # The saver has waited for longer: it is the one whose transaction is given up.
            await other.execute("SELECT 1 FROM checkpoints FOR UPDATE")
            await other.commit()
        await deleting
        assert await saver.aget_tuple(place("t")) is None
