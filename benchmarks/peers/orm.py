"""SQLAlchemy 2 ORM repositories.

In the usual style: a session per call; ``add``, ``flush``, ``refresh``, ``commit``; a pool that
pings before use. A batch is a unit of work like any other: its objects are added and flushed.
Of these SQLAlchemy makes one INSERT, but one for each row on SQLite when it has to ask for a
generated key; so there is a variant without such a key. And one with a batch as the ORM's bulk
INSERT, past the unit of work, for those who have looked it up.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from benchmarks.peers.tables import (
    Counter,
    EventRow,
    FeedbackRow,
    KeyedEventRow,
    RunRow,
    ThreadRow,
    UserRow,
)
from deerstore.repositories import (
    Feedback,
    FeedbackCreate,
    Run,
    RunCreate,
    RunEvent,
    RunEventCreate,
    ThreadMeta,
    User,
)
from deerstore.workbench.bench.seed import EVENT_THREAD, FIGURES, RUN_THREAD

__all__ = ["Orm", "OrmBulk", "OrmKeyed"]

_RENAMED = {
    "metadata_json": "metadata",
    "kwargs_json": "kwargs",
    "event_metadata": "metadata",
}
_TIMES = {"created_at": "created_time", "updated_at": "updated_time"}


def run_of(row: Any) -> Run:
    return Run(**_named(row, RunRow, {**_RENAMED, **_TIMES}))


def thread_of(row: Any) -> ThreadMeta:
    return ThreadMeta(**_named(row, ThreadRow, {**_RENAMED, **_TIMES}))


def user_of(row: Any) -> User:
    return User(**_named(row, UserRow, {}, "email_key"))


def event_of(row: Any) -> RunEvent:
    values = _named(row, EventRow, _RENAMED, "id")
    if values.pop("content_format") == "json":
        values["content"] = json.loads(values["content"])
    return RunEvent(**values)


def feedback_of(row: Any) -> Feedback:
    return Feedback(**_named(row, FeedbackRow, {}))


_columns: dict[type, list[str]] = {}


def _named(row: Any, table: type, names: dict[str, str], *left_out: str) -> dict[str, Any]:
    columns = _columns.get(table)
    if columns is None:
        columns = _columns[table] = [c.name for c in table.__table__.columns]  # type: ignore[attr-defined]
    return {names.get(c, c): getattr(row, c) for c in columns if c not in left_out}


def new_event(event: RunEventCreate, seq: int, now: datetime) -> dict[str, Any]:
    as_text = isinstance(event.content, str)
    return {
        "thread_id": event.thread_id,
        "run_id": event.run_id,
        "user_id": event.user_id,
        "event_type": event.event_type,
        "category": event.category,
        "content": event.content if as_text else json.dumps(event.content),
        "event_metadata": event.metadata,
        "content_format": "text" if as_text else "json",
        "seq": seq,
        "created_at": now,
    }


class Orm:
    """The operations by the benchmark's names."""

    name = "SQLAlchemy ORM"
    _event_row: Any = EventRow

    def __init__(self, engine: AsyncEngine) -> None:
        self._session: Callable[[], AsyncSession] = async_sessionmaker(
            engine, expire_on_commit=False
        )
        self.operations: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "runs.get_run": lambda _: self.get_run("bench-run-7"),
            "users.get_user_by_email": lambda _: self.get_user_by_email("user.7@example.com"),
            "runs.list_runs_by_thread 50": lambda _: self.list_runs(RUN_THREAD, 50),
            "run_events.list_messages 50 of 2000": lambda _: self.list_messages(EVENT_THREAD, 50),
            "run_events.list_events 500": lambda _: self.list_events("bench-long", "bench-long"),
            "runs.aggregate_tokens_by_thread 190": lambda _: self.aggregate(RUN_THREAD),
            "threads.get_thread_meta": lambda _: self.get_thread("bench-thread-7"),
            "runs.create_run": self.create_run,
            "runs.update_run_status": lambda key: self.set_status(key, "success"),
            "runs.update_run_completion": lambda key: self.complete(key, "success", FIGURES),
            "run_events.append": self.append,
            "run_events.append_batch 1": self.append_batch,
            "run_events.append_batch 10": self.append_batch,
            "run_events.append_batch 100": self.append_batch,
            "run_events.append_batch 1000": self.append_batch,
            "feedback.upsert_feedback": self.upsert_feedback,
        }

    async def get_run(self, run_id: str) -> Run | None:
        async with self._session() as session:
            row = await session.get(RunRow, run_id)
            return run_of(row) if row is not None else None

    async def get_user_by_email(self, key: str) -> User | None:
        async with self._session() as session:
            found = await session.execute(select(UserRow).where(UserRow.email_key == key))
            row = found.scalar_one_or_none()
            return user_of(row) if row is not None else None

    async def get_thread(self, thread_id: str) -> ThreadMeta | None:
        async with self._session() as session:
            row = await session.get(ThreadRow, thread_id)
            return thread_of(row) if row is not None else None

    async def list_runs(self, thread_id: str, limit: int) -> list[Run]:
        async with self._session() as session:
            found = await session.execute(
                select(RunRow)
                .where(RunRow.thread_id == thread_id)
                .order_by(RunRow.created_at.desc(), RunRow.run_id.desc())
                .limit(limit)
            )
            return [run_of(row) for row in found.scalars()]

    async def list_messages(self, thread_id: str, limit: int) -> list[RunEvent]:
        async with self._session() as session:
            found = await session.execute(
                select(EventRow)
                .where(EventRow.thread_id == thread_id, EventRow.category == "message")
                .order_by(EventRow.seq.desc())
                .limit(limit)
            )
            return [event_of(row) for row in reversed(found.scalars().all())]

    async def list_events(self, thread_id: str, run_id: str) -> list[RunEvent]:
        async with self._session() as session:
            found = await session.execute(
                select(EventRow)
                .where(EventRow.thread_id == thread_id, EventRow.run_id == run_id)
                .order_by(EventRow.seq)
                .limit(500)
            )
            return [event_of(row) for row in found.scalars()]

    async def aggregate(self, thread_id: str) -> dict[str, Any]:
        async with self._session() as session:
            found = await session.execute(
                select(RunRow).where(
                    RunRow.thread_id == thread_id, RunRow.status.in_(("success", "error"))
                )
            )
            return totals(list(found.scalars()))

    async def create_run(self, run: RunCreate) -> Run:
        now = datetime.now(UTC)
        async with self._session() as session:
            values = run.model_dump(exclude={"metadata", "kwargs", "created_time"})
            row = RunRow(
                **values,
                metadata_json=run.metadata,
                kwargs_json=run.kwargs,
                created_at=now,
                updated_at=now,
            )
            session.add(row)
            await session.flush()
            await session.refresh(row)
            await session.commit()
            return run_of(row)

    async def set_status(self, run_id: str, status: str) -> bool:
        async with self._session() as session:
            row = await session.get(RunRow, run_id)
            if row is None:
                return False
            row.status = status
            row.updated_at = datetime.now(UTC)
            await session.commit()
            return True

    async def complete(self, run_id: str, status: str, figures: dict[str, Any]) -> bool:
        async with self._session() as session:
            row = await session.get(RunRow, run_id)
            if row is None:
                return False
            row.status = status
            for name, value in figures.items():
                setattr(row, name, value)
            row.updated_at = datetime.now(UTC)
            await session.commit()
            return True

    async def append(self, event: RunEventCreate) -> RunEvent:
        now = datetime.now(UTC)
        async with self._session() as session:
            row = EventRow(**new_event(event, await self._allocate(session, event, 1), now))
            session.add(row)
            await session.flush()
            await session.refresh(row)
            await session.commit()
            return event_of(row)

    async def append_batch(self, events: Sequence[RunEventCreate]) -> list[RunEvent]:
        now = datetime.now(UTC)
        async with self._session() as session:
            first = await self._allocate(session, events[0], len(events))
            rows = [
                self._event_row(**new_event(event, seq, now))
                for seq, event in enumerate(events, start=first)
            ]
            session.add_all(rows)
            await session.flush()
            await session.commit()
            return [event_of(row) for row in rows]

    async def _allocate(self, session: AsyncSession, event: RunEventCreate, count: int) -> int:
        """The first of ``count`` numbers, under a lock on the thread's counter."""
        counter = await session.get(Counter, event.thread_id, with_for_update=True)
        if counter is None:
            highest = await session.scalar(
                select(func.max(EventRow.seq)).where(EventRow.thread_id == event.thread_id)
            )
            counter = Counter(thread_id=event.thread_id, last_seq=highest or 0)
            session.add(counter)
        counter.last_seq += count
        await session.flush()
        return counter.last_seq - count + 1

    async def upsert_feedback(self, feedback: FeedbackCreate) -> Feedback:
        async with self._session() as session:
            found = await session.execute(
                select(FeedbackRow).where(
                    FeedbackRow.thread_id == feedback.thread_id,
                    FeedbackRow.run_id == feedback.run_id,
                    FeedbackRow.user_id == feedback.user_id,
                )
            )
            row = found.scalar_one_or_none()
            now = datetime.now(UTC)
            if row is None:
                row = FeedbackRow(**feedback.model_dump(), created_at=now)
                session.add(row)
            else:
                row.rating = feedback.rating
                row.comment = feedback.comment
                row.message_id = feedback.message_id
                row.created_at = now
            await session.flush()
            await session.refresh(row)
            await session.commit()
            return feedback_of(row)


class OrmKeyed(Orm):
    """The same with events that SQLite, too, takes in one INSERT."""

    name = "SQLAlchemy ORM, own key"
    _event_row = KeyedEventRow

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.operations = {
            f"run_events.append_batch {count}": self.append_batch for count in (10, 100, 1_000)
        }


class OrmBulk(Orm):
    """The same with the ORM's bulk INSERT."""

    name = "SQLAlchemy ORM, bulk INSERT"

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.operations = {
            f"run_events.append_batch {count}": self.append_batch for count in (10, 100, 1_000)
        }

    async def append_batch(self, events: Sequence[RunEventCreate]) -> list[RunEvent]:
        now = datetime.now(UTC)
        async with self._session() as session:
            first = await self._allocate(session, events[0], len(events))
            rows = [new_event(event, seq, now) for seq, event in enumerate(events, start=first)]
            await session.execute(insert(EventRow), rows)
            await session.commit()
        return [
            RunEvent(**event.model_dump(exclude={"created_at"}), seq=seq, created_at=now)
            for seq, event in enumerate(events, start=first)
        ]


def totals(rows: Sequence[Any]) -> dict[str, Any]:
    """The token aggregate, as deerstore gives it."""
    by_model: dict[str, dict[str, int]] = {}
    for row in rows:
        usage = row.token_usage_by_model or {
            row.model_name or "unknown": {"total_tokens": row.total_tokens}
        }
        for model, tokens in usage.items():
            entry = by_model.setdefault(model, {"tokens": 0, "runs": 0})
            entry["tokens"] += tokens.get("total_tokens") or 0
            entry["runs"] += 1
    return {
        "total_tokens": sum(row.total_tokens for row in rows),
        "total_input_tokens": sum(row.total_input_tokens for row in rows),
        "total_output_tokens": sum(row.total_output_tokens for row in rows),
        "total_runs": len(rows),
        "by_model": by_model,
        "by_caller": {
            "lead_agent": sum(row.lead_agent_tokens for row in rows),
            "subagent": sum(row.subagent_tokens for row in rows),
            "middleware": sum(row.middleware_tokens for row in rows),
        },
    }
