"""The checkpointer through the bundle against LangGraph's own ``from_conn_string`` way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Any
from urllib.parse import unquote

from langgraph.checkpoint.base import empty_checkpoint

from benchmarks.places import Place
from deerstore.persistence import create_persistence_from_storage_config

__all__ = ["compare_checkpointers"]

TASKS = 16


async def compare_checkpointers(place: Place, *, full: bool) -> dict[str, Any]:
    """Operations per second of put, get and list under 16 tasks, in alternating slices."""
    persistence = await create_persistence_from_storage_config(place.config)
    try:
        await persistence.setup()
        async with _langgraph_own(place) as own:
            savers = {"bundle": persistence.checkpointer, "from_conn_string": own}
            rates: dict[str, dict[str, list[float]]] = {}
            for _ in range(10 if full else 3):
                for name, saver in savers.items():
                    for what, rate in (await _slice(name, saver, 40 if full else 15)).items():
                        rates.setdefault(what, {}).setdefault(name, []).append(rate)
        return {
            what: {name: f"{median(values):.0f}/s" for name, values in of.items()}
            for what, of in rates.items()
        }
    finally:
        await persistence.aclose()


@asynccontextmanager
async def _langgraph_own(place: Place) -> AsyncIterator[Any]:
    if place.kind == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place.config.targets.sqlite_path()) as saver:
            await saver.setup()
            yield saver
        return
    assert place.config.database_url is not None
    url = place.config.database_url.get_secret_value().replace("+aiomysql", "")
    if place.kind == "postgres":
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            yield saver
        return
    import aiomysql
    from langgraph.checkpoint.mysql.aio import AIOMySQLSaver

    # As from_conn_string does, which takes a password as it stands in the URL.
    given = AIOMySQLSaver.parse_conn_string(url)
    given["password"] = unquote(given["password"] or "")
    async with aiomysql.connect(**given, autocommit=True) as connection:
        yield AIOMySQLSaver(conn=connection)


async def _slice(name: str, saver: Any, each: int) -> dict[str, float]:
    def config(task: int) -> dict[str, Any]:
        return {"configurable": {"thread_id": f"{name}-{task}", "checkpoint_ns": ""}}

    async def put(task: int) -> None:
        at = config(task)
        for step in range(each):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": ["a short message"] * 10, "step": step}
            versions = {"messages": f"{step + 1:032}.0", "step": f"{step + 1:032}.0"}
            checkpoint["channel_versions"] = versions
            at = await saver.aput(at, checkpoint, {"source": "loop", "step": step}, versions)
            await saver.aput_writes(at, [("messages", "one more")], f"task-{step}")

    async def get(task: int) -> None:
        for _ in range(each):
            assert await saver.aget_tuple(config(task)) is not None

    async def page(task: int) -> None:
        for _ in range(max(1, each // 5)):
            assert [one async for one in saver.alist(config(task), limit=10)]

    rates = {}
    for what, work, count in (
        ("put (checkpoint and write)", put, each),
        ("get the newest", get, each),
        ("list 10", page, max(1, each // 5)),
    ):
        start = perf_counter()
        await asyncio.gather(*(work(task) for task in range(TASKS)))
        rates[what] = TASKS * count / (perf_counter() - start)
    return rates
