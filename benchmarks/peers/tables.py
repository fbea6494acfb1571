"""The tables as SQLAlchemy maps them: deerstore's own, made by its migrations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Integer, String, Text
from sqlalchemy.dialects.mysql import DATETIME
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

__all__ = [
    "Base",
    "Counter",
    "EventRow",
    "FeedbackRow",
    "KeyedEventRow",
    "RunRow",
    "ThreadRow",
    "UserRow",
]


class UtcTime(TypeDecorator[datetime]):
    """Aware in and out, as deerstore's rows are; SQLite and MySQL store no zone."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        if dialect.name == "mysql":
            return dialect.type_descriptor(DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.replace(tzinfo=UTC)


def _json() -> Any:
    # The columns are text on MySQL; SQLAlchemy's type has the same encoder and decoder everywhere.
    return JSON().with_variant(_JsonText(), "mysql")


class _JsonText(TypeDecorator[Any]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else json.loads(value)


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's way
        datetime: UtcTime,
        str: String,
        int: BigInteger().with_variant(Integer, "sqlite"),
        bool: Boolean,
    }


class UserRow(Base):
    __tablename__ = "users"
    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    email_key: Mapped[str | None]
    password_hash: Mapped[str | None]
    system_role: Mapped[str]
    created_at: Mapped[datetime]
    oauth_provider: Mapped[str | None]
    oauth_id: Mapped[str | None]
    needs_setup: Mapped[bool]
    token_version: Mapped[int]


class RunRow(Base):
    __tablename__ = "runs"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    thread_id: Mapped[str]
    assistant_id: Mapped[str | None]
    user_id: Mapped[str | None]
    status: Mapped[str]
    operation_kind: Mapped[str]
    idempotency_key: Mapped[str | None]
    model_name: Mapped[str | None]
    multitask_strategy: Mapped[str]
    metadata_json: Mapped[dict[str, Any]] = mapped_column(_json())
    kwargs_json: Mapped[dict[str, Any]] = mapped_column(_json())
    error: Mapped[str | None] = mapped_column(Text)
    stop_reason: Mapped[str | None]
    message_count: Mapped[int] = mapped_column(default=0)
    first_human_message: Mapped[str | None] = mapped_column(Text)
    last_ai_message: Mapped[str | None] = mapped_column(Text)
    total_input_tokens: Mapped[int] = mapped_column(default=0)
    total_output_tokens: Mapped[int] = mapped_column(default=0)
    total_tokens: Mapped[int] = mapped_column(default=0)
    llm_call_count: Mapped[int] = mapped_column(default=0)
    lead_agent_tokens: Mapped[int] = mapped_column(default=0)
    subagent_tokens: Mapped[int] = mapped_column(default=0)
    middleware_tokens: Mapped[int] = mapped_column(default=0)
    token_usage_by_model: Mapped[dict[str, Any]] = mapped_column(_json(), default=dict)
    follow_up_to_run_id: Mapped[str | None]
    owner_worker_id: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    cancel_action: Mapped[str | None]
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class EventRow(Base):
    __tablename__ = "run_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    thread_id: Mapped[str]
    run_id: Mapped[str]
    user_id: Mapped[str | None]
    event_type: Mapped[str]
    category: Mapped[str]
    content: Mapped[str] = mapped_column(Text)
    event_metadata: Mapped[dict[str, Any]] = mapped_column(_json())
    content_format: Mapped[str | None]
    seq: Mapped[int]
    created_at: Mapped[datetime]


class KeyedEventRow(Base):
    """The same rows by a key that is known before they are written, so that SQLAlchemy can insert
    many at once also on SQLite, where it would ask for each id by itself.
    """

    __table__ = EventRow.__table__
    __mapper_args__ = {  # noqa: RUF012 - SQLAlchemy's way
        "primary_key": [EventRow.__table__.c.thread_id, EventRow.__table__.c.seq],
        "exclude_properties": ["id"],
    }


class Counter(Base):
    __tablename__ = "run_event_counters"
    thread_id: Mapped[str] = mapped_column(primary_key=True)
    last_seq: Mapped[int]


class ThreadRow(Base):
    __tablename__ = "threads_meta"
    thread_id: Mapped[str] = mapped_column(primary_key=True)
    assistant_id: Mapped[str | None]
    user_id: Mapped[str | None]
    display_name: Mapped[str | None]
    status: Mapped[str]
    metadata_json: Mapped[dict[str, Any]] = mapped_column(_json())
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class FeedbackRow(Base):
    __tablename__ = "feedback"
    feedback_id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str]
    thread_id: Mapped[str]
    user_id: Mapped[str | None]
    message_id: Mapped[str | None]
    rating: Mapped[int] = mapped_column(Integer)
    comment: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
