"""A million rows in a reasonable time: one INSERT … SELECT per step, on the bare driver.

The triggers that keep the metadata index do their work here as they do for every writer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from benchmarks.places import Place

__all__ = ["Bulk", "bulk_for"]

STEP = 50_000

_THREADS = """
INSERT INTO threads_meta
    (thread_id, user_id, display_name, status, metadata_json, created_at, updated_at)
SELECT {id}, {user}, 'A conversation', 'idle', {metadata}, {time}, {time} FROM {numbers}
"""
_EVENTS = """
INSERT INTO run_events
    (thread_id, run_id, user_id, event_type, category, content, event_metadata, seq, created_at,
     content_format)
SELECT '{thread}', {run}, 'grow-user', 'llm.ai.response', 'message',
    'The answer has several parts, and each of them is short.',
    '{{"caller":"lead_agent"}}', n + 1, {time}, 'text'
FROM {numbers}
"""
_RUNS = """
INSERT INTO runs
    (run_id, thread_id, status, multitask_strategy, metadata_json, kwargs_json, created_at,
     updated_at, message_count, total_input_tokens, total_output_tokens, total_tokens,
     llm_call_count, lead_agent_tokens, subagent_tokens, middleware_tokens, token_usage_by_model)
SELECT {id}, '{thread}', 'success', 'reject', '{{}}', '{{}}', {time}, {time},
    0, 0, 0, 0, 0, 0, 0, 0, '{{}}'
FROM {numbers}
"""
_COUNTER = "DELETE FROM run_event_counters WHERE thread_id = '{thread}'"

_PARTS: dict[str, dict[str, str]] = {
    "sqlite": {
        "id": "'grow-' || n",
        "user": "'grow-user-' || (n % 1000)",
        "run": "'grow-run-' || (n / 100)",
        "metadata": '\'{"project":"p1","stage":1,"beta":true,"number":\' || n || \'}\'',
        "time": "datetime(1700000000 + n, 'unixepoch') || '.000000'",
        "numbers": "(WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s "
        "WHERE n + 1 < {end}) SELECT n FROM s)",
    },
    "postgres": {
        "id": "'grow-' || n",
        "user": "'grow-user-' || (n % 1000)",
        "run": "'grow-run-' || (n / 100)",
        "metadata": 'CAST(\'{"project":"p1","stage":1,"beta":true,"number":\' || n || \'}\' '
        "AS json)",
        "time": "to_timestamp(1700000000 + n)",
        "numbers": "generate_series({first}, {end} - 1) AS s (n)",
    },
    "mysql": {
        "id": "CONCAT('grow-', n)",
        "user": "CONCAT('grow-user-', n % 1000)",
        "run": "CONCAT('grow-run-', n DIV 100)",
        "metadata": 'CONCAT(\'{"project":"p1","stage":1,"beta":true,"number":\', n, \'}\')',
        "time": "FROM_UNIXTIME(1700000000 + n)",
        "numbers": "(WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s "
        "WHERE n + 1 < {end}) SELECT n FROM s) AS numbers",
    },
}
_PARTS["aiomysql"] = _PARTS["asyncmy"] = _PARTS["mysql"]


class _Runs(Protocol):
    async def __call__(self, sql: str) -> Any: ...


class Bulk:
    """Fills the tables of one database."""

    def __init__(self, kind: str, run: _Runs) -> None:
        self._parts = _PARTS[kind]
        self._run = run
        self._kind = kind

    async def threads(self, first: int, end: int) -> None:
        """Threads number ``first`` to ``end`` (exclusive)."""
        await self._steps(_THREADS, first, end)
        await self._analyze("threads_meta", "threads_meta_index")

    async def events(self, thread: str, first: int, end: int) -> None:
        """Events of one thread, by number."""
        await self._run(_COUNTER.format(thread=thread))
        await self._steps(_EVENTS, first, end, thread=thread)
        await self._analyze("run_events")

    async def runs(self, thread: str, first: int, end: int) -> None:
        """Runs of one thread, by number."""
        await self._steps(_RUNS, first, end, thread=thread)
        await self._analyze("runs")

    async def _steps(self, sql: str, first: int, end: int, **parts: str) -> None:
        while first < end:
            until = min(end, first + STEP)
            numbers = self._parts["numbers"].format(first=first, end=until)
            await self._run(sql.format(**{**self._parts, "numbers": numbers}, **parts))
            first = until

    async def _analyze(self, *tables: str) -> None:
        # What a server's own jobs do sooner or later. SQLite keeps no statistics; its log goes into
        # the file.
        if self._kind == "sqlite":
            await self._run("PRAGMA wal_checkpoint(TRUNCATE)")
            return
        word = "ANALYZE" if self._kind == "postgres" else "ANALYZE TABLE"
        for table in tables:
            await self._run(f"{word} {table}")


@asynccontextmanager
async def bulk_for(place: Place) -> AsyncIterator[Bulk]:
    """The way to fill a database in bulk."""
    targets = place.config.targets
    if place.kind == "sqlite":
        import aiosqlite

        async with aiosqlite.connect(targets.sqlite_path(), isolation_level=None) as raw:
            await raw.execute("PRAGMA busy_timeout = 60000")
            await raw.execute("PRAGMA synchronous = OFF")
            yield Bulk("sqlite", raw.execute)
        return
    if place.kind == "postgres":
        import asyncpg

        connection = await asyncpg.connect(**targets.asyncpg_kwargs())
        try:
            yield Bulk("postgres", connection.execute)
        finally:
            await connection.close()
        return
    import aiomysql

    raw = await aiomysql.connect(**targets.aiomysql_kwargs(), autocommit=True)
    try:
        async with raw.cursor() as cursor:
            await cursor.execute("SET SESSION max_recursive_iterations = 1000000")
            yield Bulk("mysql", cursor.execute)
    finally:
        raw.close()
