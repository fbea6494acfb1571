"""The expected shape of the application tables, written by hand, once for three engines.

It serves three ends: what an adoption has to add, what ``deerstore schema status`` calls drift,
and the statement that restores a dropped part. The migrations make this shape; a test holds the
two together on every engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deerstore.config.url import Engine

__all__ = ["TABLES", "Column", "Index", "Table", "column_type", "expected_tables"]

_ALL: tuple[Engine, ...] = ("sqlite", "postgres", "mysql")
_PARTIAL: tuple[Engine, ...] = ("sqlite", "postgres")
"""The engines with partial indexes; MySQL and MariaDB use a generated column instead."""

# Each kind as the engine's catalog spells it: sqlite, postgres, mysql.
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "time": ("datetime", "timestamp with time zone", "datetime(6)"),
    "index_time": ("datetime", "timestamp with time zone", "datetime(6)"),
    "json": ("json", "json", "longtext"),
    "text": ("text", "text", "longtext"),
    "count": ("integer", "bigint", "bigint"),
    "flag": ("boolean", "boolean", "tinyint(1)"),
    "double": ("double", "double precision", "double"),
    "pinned": ("integer", "smallint", "tinyint"),
    "term_value": ("text", "character varying(129)", "varchar(129)"),
    "term_literal": ("text", "text", "text"),
}


@dataclass(frozen=True)
class Column:
    """A column. ``kind`` is a name of the table of kinds, or ``char(n)``.

    ``default`` is SQL, ``key`` the position in the primary key (0: not in it), and
    ``generated`` is the expression of a stored generated column. ``bare``: a release of DeerFlow
    made the column without its default, and it is left so.
    """

    name: str
    kind: str
    null: bool = False
    default: str | None = None
    bare: bool = False
    key: int = 0
    generated: str | None = None
    engines: tuple[Engine, ...] = _ALL


@dataclass(frozen=True)
class Index:
    """An index, or a unique constraint (``constraint``), which every engine keeps as an index.

    ``forced`` are the engines on which a query names it in FORCE INDEX, and fails without it.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    where: str | None = None
    constraint: bool = False
    forced: tuple[Engine, ...] = ()
    engines: tuple[Engine, ...] = _ALL


@dataclass(frozen=True)
class Table:
    """A table with everything that belongs to it, but for triggers: their names and texts differ
    so much between the engines that they are read from the migrations.
    """

    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    engines: tuple[Engine, ...] = _ALL


_ACTIVE = "status IN ('pending', 'running')"

TABLES: tuple[Table, ...] = (
    Table(
        "users",
        (
            Column("id", "char(36)", key=1),
            Column("email", "char(320)"),
            Column("password_hash", "char(128)", null=True),
            Column("system_role", "char(16)"),
            Column("created_at", "time"),
            Column("oauth_provider", "char(32)", null=True),
            Column("oauth_id", "char(128)", null=True),
            Column("needs_setup", "flag"),
            Column("token_version", "count"),
            Column("email_key", "char(320)", null=True),
        ),
        (
            Index("ix_users_email", ("email",), unique=True),
            Index("uq_users_email_key", ("email_key",), unique=True),
            Index(
                "idx_users_oauth_identity",
                ("oauth_provider", "oauth_id"),
                unique=True,
                where="oauth_provider IS NOT NULL AND oauth_id IS NOT NULL",
                engines=_PARTIAL,
            ),
            Index(
                "idx_users_oauth_identity",
                ("oauth_provider", "oauth_id"),
                unique=True,
                engines=("mysql",),
            ),
            Index("ix_users_role_created", ("system_role", "created_at", "id")),
        ),
    ),
    Table("user_locks", (Column("name", "char(32)", key=1),), engines=("mysql",)),
    Table(
        "runs",
        (
            Column("run_id", "char(64)", key=1),
            Column("thread_id", "char(64)"),
            Column("assistant_id", "char(128)", null=True),
            Column("user_id", "char(64)", null=True),
            Column("status", "char(20)"),
            Column("operation_kind", "char(32)", default="'run'"),
            Column("idempotency_key", "char(255)", null=True),
            Column("model_name", "char(128)", null=True),
            Column("multitask_strategy", "char(20)"),
            Column("metadata_json", "json"),
            Column("kwargs_json", "json"),
            Column("error", "text", null=True),
            Column("stop_reason", "char(50)", null=True),
            Column("message_count", "count"),
            Column("first_human_message", "text", null=True),
            Column("last_ai_message", "text", null=True),
            Column("total_input_tokens", "count"),
            Column("total_output_tokens", "count"),
            Column("total_tokens", "count"),
            Column("llm_call_count", "count"),
            Column("lead_agent_tokens", "count"),
            Column("subagent_tokens", "count"),
            Column("middleware_tokens", "count"),
            # MySQL gives no default to a text.
            Column("token_usage_by_model", "json", default="'{}'", bare=True, engines=_PARTIAL),
            Column("token_usage_by_model", "json", engines=("mysql",)),
            Column("follow_up_to_run_id", "char(64)", null=True),
            Column("owner_worker_id", "char(128)", null=True),
            Column("lease_expires_at", "time", null=True),
            Column("cancel_action", "char(20)", null=True),
            Column("cancel_requested_at", "time", null=True),
            Column("created_at", "time"),
            Column("updated_at", "time"),
            Column("admitted", "flag", null=True),
            Column(
                "active_thread_id",
                "char(64)",
                null=True,
                generated=f"CASE WHEN admitted = 1 AND {_ACTIVE} THEN thread_id END",
                engines=("mysql",),
            ),
        ),
        (
            Index("uq_runs_idempotency_key", ("idempotency_key",), unique=True),
            Index(
                "uq_runs_admitted",
                ("thread_id",),
                unique=True,
                where=f"admitted AND {_ACTIVE}",
                engines=_PARTIAL,
            ),
            Index("uq_runs_admitted", ("active_thread_id",), unique=True, engines=("mysql",)),
            Index(
                "ix_runs_thread_created",
                ("thread_id", "created_at", "run_id"),
                forced=("mysql",),
            ),
            Index("ix_runs_inflight", ("created_at", "run_id"), where=_ACTIVE, engines=_PARTIAL),
            Index("ix_runs_inflight", ("status", "created_at", "run_id"), engines=("mysql",)),
            # DeerFlow's, which has no MySQL; there the two beside it serve as well.
            Index("ix_runs_thread_id", ("thread_id",), engines=_PARTIAL),
            Index("ix_runs_thread_status", ("thread_id", "status"), forced=("mysql",)),
            Index("ix_runs_user_id", ("user_id",)),
            Index("ix_runs_lease", ("lease_expires_at",)),
        ),
    ),
    Table(
        "run_events",
        (
            Column("id", "count", key=1),
            Column("thread_id", "char(64)"),
            Column("run_id", "char(64)"),
            Column("user_id", "char(64)", null=True),
            Column("event_type", "char(32)"),
            Column("category", "char(16)"),
            Column("content", "text"),
            Column("event_metadata", "json"),
            Column("seq", "count"),
            Column("created_at", "time"),
            Column("content_format", "char(8)", null=True),
        ),
        (
            Index("uq_events_thread_seq", ("thread_id", "seq"), unique=True, constraint=True),
            Index("ix_events_thread_cat_seq", ("thread_id", "category", "seq"), forced=("mysql",)),
            Index("ix_events_run", ("thread_id", "run_id", "seq"), forced=("mysql",)),
        ),
    ),
    Table(
        "run_event_counters",
        (Column("thread_id", "char(64)", key=1), Column("last_seq", "count")),
    ),
    Table(
        "threads_meta",
        (
            Column("thread_id", "char(64)", key=1),
            Column("assistant_id", "char(128)", null=True),
            Column("user_id", "char(64)", null=True),
            Column("display_name", "char(256)", null=True),
            Column("status", "char(20)"),
            Column("metadata_json", "json"),
            Column("created_at", "time"),
            Column("updated_at", "time"),
        ),
    ),
    Table(
        "threads_meta_index",
        (
            Column("thread_id", "char(64)", key=1),
            Column("term", "char(66)", key=2),
            Column("number", "double"),
            Column("value", "term_value"),
            Column("literal", "term_literal", null=True),
            Column("pinned", "pinned"),
            Column("created_at", "index_time"),
            Column("updated_at", "index_time"),
        ),
        (
            Index(
                "ix_threads_meta_index_created",
                ("term", "number", "value", "created_at", "thread_id"),
            ),
            Index(
                "ix_threads_meta_index_recent",
                ("term", "number", "value", "pinned", "updated_at", "thread_id"),
            ),
        ),
    ),
    Table(
        "feedback",
        (
            Column("feedback_id", "char(64)", key=1),
            Column("run_id", "char(64)"),
            Column("thread_id", "char(64)"),
            Column("user_id", "char(64)", null=True),
            Column("message_id", "char(64)", null=True),
            Column("rating", "count"),
            Column("comment", "text", null=True),
            Column("created_at", "time"),
            Column("admitted", "flag", null=True),
            Column(
                "user_key",
                "char(65)",
                generated="CASE WHEN user_id IS NOT NULL THEN CONCAT('=', user_id) "
                "WHEN admitted = 1 THEN '-' END",
                null=True,
                engines=("mysql",),
            ),
        ),
        (
            Index(
                "uq_feedback_thread_run_user",
                ("thread_id", "run_id", "user_id"),
                unique=True,
                constraint=True,
                engines=_PARTIAL,
            ),
            Index(
                "uq_feedback_thread_run_user",
                ("thread_id", "run_id", "user_key"),
                unique=True,
                engines=("mysql",),
            ),
            Index(
                "uq_feedback_admitted",
                ("admitted", "thread_id", "run_id"),
                unique=True,
                where="user_id IS NULL",
                engines=_PARTIAL,
            ),
            Index("ix_feedback_run_id", ("run_id",)),
            Index("ix_feedback_thread_id", ("thread_id",)),
            Index("ix_feedback_user_id", ("user_id",)),
        ),
    ),
)


def expected_tables(engine: Engine) -> tuple[Table, ...]:
    """The tables of one engine, with that engine's columns and indexes only."""
    return tuple(
        Table(
            table.name,
            tuple(column for column in table.columns if engine in column.engines),
            tuple(index for index in table.indexes if engine in index.engines),
        )
        for table in TABLES
        if engine in table.engines
    )


def column_type(kind: str, engine: Engine) -> str:
    """A kind of column in the words of the engine's catalog, in lower case."""
    position = _ALL.index(engine)
    if kind in _KINDS:
        return _KINDS[kind][position]
    length = kind.removeprefix("char")
    return f"{('varchar', 'character varying', 'varchar')[position]}{length}"
