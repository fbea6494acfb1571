"""SQLAlchemy Core: a connection per call, statements built once, no ORM."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.peers.orm import event_of, new_event, run_of, user_of
from benchmarks.peers.tables import Counter, EventRow, RunRow, UserRow
from deerstore.repositories import Run, RunCreate, RunEvent, RunEventCreate, User
from deerstore.workbench.bench.seed import EVENT_THREAD, FIGURES, RUN_THREAD

__all__ = ["Core"]

_runs, _events, _users = RunRow.__table__, EventRow.__table__, UserRow.__table__
_counters = Counter.__table__

_GET_RUN = select(_runs).where(_runs.c.run_id == bindparam("run_id"))
_GET_USER = select(_users).where(_users.c.email_key == bindparam("key"))
_LIST_RUNS = (
    select(_runs)
    .where(_runs.c.thread_id == bindparam("thread_id"))
    .order_by(_runs.c.created_at.desc(), _runs.c.run_id.desc())
    .limit(50)
)
_LIST_MESSAGES = (
    select(_events)
    .where(_events.c.thread_id == bindparam("thread_id"), _events.c.category == "message")
    .order_by(_events.c.seq.desc())
    .limit(50)
)
_LIST_EVENTS = (
    select(_events)
    .where(_events.c.thread_id == bindparam("thread_id"), _events.c.run_id == bindparam("run"))
    .order_by(_events.c.seq)
    .limit(500)
)


class Core:
    """The operations by the benchmark's names."""

    name = "SQLAlchemy Core"

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.operations: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "runs.get_run": lambda _: self.get_run("bench-run-7"),
            "users.get_user_by_email": lambda _: self.get_user_by_email("user.7@example.com"),
            "runs.list_runs_by_thread 50": lambda _: self.list_runs(RUN_THREAD),
            "run_events.list_messages 50 of 2000": lambda _: self.list_messages(EVENT_THREAD),
            "run_events.list_events 500": lambda _: self.list_events("bench-long", "bench-long"),
            "runs.create_run": self.create_run,
            "runs.update_run_completion": lambda key: self.complete(key, "success", FIGURES),
            "run_events.append_batch 1": self.append_batch,
            "run_events.append_batch 10": self.append_batch,
            "run_events.append_batch 100": self.append_batch,
            "run_events.append_batch 1000": self.append_batch,
        }

    async def get_run(self, run_id: str) -> Run | None:
        async with self._engine.connect() as connection:
            row = (await connection.execute(_GET_RUN, {"run_id": run_id})).one_or_none()
            return run_of(row) if row is not None else None

    async def get_user_by_email(self, key: str) -> User | None:
        async with self._engine.connect() as connection:
            row = (await connection.execute(_GET_USER, {"key": key})).one_or_none()
            return user_of(row) if row is not None else None

    async def list_runs(self, thread_id: str) -> list[Run]:
        async with self._engine.connect() as connection:
            rows = await connection.execute(_LIST_RUNS, {"thread_id": thread_id})
            return [run_of(row) for row in rows]

    async def list_messages(self, thread_id: str) -> list[RunEvent]:
        async with self._engine.connect() as connection:
            rows = await connection.execute(_LIST_MESSAGES, {"thread_id": thread_id})
            return [event_of(row) for row in reversed(rows.all())]

    async def list_events(self, thread_id: str, run_id: str) -> list[RunEvent]:
        async with self._engine.connect() as connection:
            given = {"thread_id": thread_id, "run": run_id}
            return [event_of(row) for row in await connection.execute(_LIST_EVENTS, given)]

    async def create_run(self, run: RunCreate) -> Run:
        now = datetime.now(UTC)
        values = run.model_dump(exclude={"metadata", "kwargs", "created_time"})
        row = {
            **values,
            "metadata_json": run.metadata,
            "kwargs_json": run.kwargs,
            "created_at": now,
            "updated_at": now,
        }
        async with self._engine.begin() as connection:
            await connection.execute(insert(_runs), row)
            return run_of((await connection.execute(_GET_RUN, {"run_id": run.run_id})).one())

    async def complete(self, run_id: str, status: str, figures: dict[str, Any]) -> bool:
        async with self._engine.begin() as connection:
            done = await connection.execute(
                update(_runs)
                .where(_runs.c.run_id == run_id)
                .values(status=status, updated_at=datetime.now(UTC), **figures)
            )
            return done.rowcount > 0

    async def append_batch(self, events: Sequence[RunEventCreate]) -> list[RunEvent]:
        now, count, thread_id = datetime.now(UTC), len(events), events[0].thread_id
        async with self._engine.begin() as connection:
            last = await connection.scalar(
                select(_counters.c.last_seq)
                .where(_counters.c.thread_id == thread_id)
                .with_for_update()
            )
            if last is None:
                last = (
                    await connection.scalar(
                        select(func.max(_events.c.seq)).where(_events.c.thread_id == thread_id)
                    )
                    or 0
                )
                await connection.execute(
                    insert(_counters), {"thread_id": thread_id, "last_seq": last + count}
                )
            else:
                await connection.execute(
                    update(_counters)
                    .where(_counters.c.thread_id == thread_id)
                    .values(last_seq=last + count)
                )
            await connection.execute(
                insert(_events),
                [new_event(event, last + n, now) for n, event in enumerate(events, start=1)],
            )
        return [
            RunEvent(**event.model_dump(exclude={"created_at"}), seq=last + n, created_at=now)
            for n, event in enumerate(events, start=1)
        ]
