"""aiosql: SQL from text, over aiosqlite and asyncpg's pool. It has no async driver for MySQL."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import aiosql

from benchmarks.peers.orm import event_of, run_of, user_of
from benchmarks.peers.tables import EventRow, RunRow, UserRow
from deerstore.config import StorageConfig
from deerstore.repositories import Run, RunEvent, User
from deerstore.workbench.bench.seed import EVENT_THREAD, RUN_THREAD

__all__ = ["Aiosql"]

_COLUMNS = {
    table: ", ".join(column.name for column in table.__table__.columns)
    for table in (RunRow, EventRow, UserRow)
}
_SQL = f"""
-- name: get_run^
SELECT {_COLUMNS[RunRow]} FROM runs WHERE run_id = :run_id;

-- name: get_user_by_email^
SELECT {_COLUMNS[UserRow]} FROM users WHERE email_key = :key;

-- name: list_runs
SELECT {_COLUMNS[RunRow]} FROM runs WHERE thread_id = :thread_id
ORDER BY created_at DESC, run_id DESC LIMIT 50;

-- name: list_messages
SELECT {_COLUMNS[EventRow]} FROM run_events
WHERE thread_id = :thread_id AND category = 'message' ORDER BY seq DESC LIMIT 50;

-- name: set_status!
UPDATE runs SET status = :status, updated_at = :now WHERE run_id = :run_id;
"""
_JSON = frozenset({"metadata_json", "kwargs_json", "token_usage_by_model", "event_metadata"})


class Aiosql:
    """The operations by the benchmark's names."""

    name = "aiosql"

    def __init__(self, engine: str, pool: Any) -> None:
        self._engine = engine
        self._pool = pool
        driver = "asyncpg" if engine == "postgres" else "aiosqlite"
        self._sql = aiosql.from_str(_SQL, driver, mandatory_parameters=False)
        self.operations: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "runs.get_run": lambda _: self.get_run("bench-run-7"),
            "users.get_user_by_email": lambda _: self.get_user_by_email("user.7@example.com"),
            "runs.list_runs_by_thread 50": lambda _: self.list_runs(RUN_THREAD),
            "run_events.list_messages 50 of 2000": lambda _: self.list_messages(EVENT_THREAD),
            "runs.update_run_status": lambda key: self.set_status(key, "success"),
        }

    @classmethod
    @asynccontextmanager
    async def open(cls, config: StorageConfig) -> Any:
        if config.driver == "postgres":
            import asyncpg

            async with asyncpg.create_pool(
                **config.targets.asyncpg_kwargs(), min_size=1, max_size=5
            ) as pool:
                yield cls("postgres", pool)
            return
        import aiosqlite

        async with aiosqlite.connect(config.targets.sqlite_path()) as connection:
            await connection.execute("PRAGMA busy_timeout = 30000")
            await connection.execute(f"PRAGMA synchronous = {config.sqlite_synchronous}")
            yield cls("sqlite", connection)

    async def get_run(self, run_id: str) -> Run | None:
        row = await self._sql.get_run(self._pool, run_id=run_id)
        return run_of(self._row(RunRow, row)) if row is not None else None

    async def get_user_by_email(self, key: str) -> User | None:
        row = await self._sql.get_user_by_email(self._pool, key=key)
        return user_of(self._row(UserRow, row)) if row is not None else None

    async def list_runs(self, thread_id: str) -> list[Run]:
        rows = self._sql.list_runs(self._pool, thread_id=thread_id)
        return [run_of(self._row(RunRow, row)) async for row in rows]

    async def list_messages(self, thread_id: str) -> list[RunEvent]:
        rows = self._sql.list_messages(self._pool, thread_id=thread_id)
        return [event_of(self._row(EventRow, row)) async for row in rows][::-1]

    async def set_status(self, run_id: str, status: str) -> bool:
        now: Any = datetime.now(UTC)
        if self._engine == "sqlite":
            now = now.replace(tzinfo=None).isoformat(" ", "microseconds")
        done = await self._sql.set_status(self._pool, status=status, now=now, run_id=run_id)
        if self._engine == "sqlite":
            await self._pool.commit()
        return bool(done)

    def _row(self, table: Any, row: Any) -> SimpleNamespace:
        values = {}
        for column, value in zip(table.__table__.columns, row, strict=True):
            name = column.name
            if name in _JSON:
                value = json.loads(value)  # noqa: PLW2901
            elif name.endswith("_at") and isinstance(value, str):
                value = datetime.fromisoformat(value + "+00:00")  # noqa: PLW2901
            values[name] = value
        return SimpleNamespace(**values)
