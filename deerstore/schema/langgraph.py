"""LangGraph's own tables: made by its migrations, in steps that a killed process may repeat.

LangGraph's ``setup()`` runs a statement and then notes its number. A process killed in between
leaves a statement that was run but not noted, which its next start runs again and fails. The same
statements are run here, and the first open one may find its work done.

What deerstore adds to these tables: on MySQL and MariaDB a collation that compares ids code point
by code point, trailing spaces included, and microseconds for the Store's times; on PostgreSQL an
index that a killed ``CREATE INDEX CONCURRENTLY`` left invalid is built again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

__all__ = ["Execute", "Ledger", "complete_mysql", "complete_postgres", "run_migrations"]

Execute = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""Runs one statement, committed at once, and gives its rows."""

Ledger = tuple[str, Sequence[str]]
"""The table in which LangGraph notes what was run, and its statements in their order."""


async def run_migrations(
    execute: Execute, ledger: Ledger, is_done_already: Callable[[Exception], bool]
) -> None:
    """Run what is not noted yet.

    ``is_done_already`` tells whether an error means that the statement's work is done.
    """
    table, statements = ledger
    await execute(f"CREATE TABLE IF NOT EXISTS {table} (v INTEGER PRIMARY KEY)")
    noted = await execute(f"SELECT v FROM {table} ORDER BY v DESC LIMIT 1")  # noqa: S608
    first = int(noted[0][0]) + 1 if noted else 0
    for number in range(first, len(statements)):
        try:
            await execute(statements[number])
        except Exception as error:
            if number != first or not is_done_already(error):
                raise
        await execute(f"INSERT INTO {table} (v) VALUES ({number:d})")  # noqa: S608


# -- PostgreSQL ----------------------------------------------------------------------------------

_INVALID_INDEXES = """
SELECT quote_ident(i.relname)
FROM pg_index AS x
INNER JOIN pg_class AS i ON i.oid = x.indexrelid
INNER JOIN pg_class AS t ON t.oid = x.indrelid
INNER JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE NOT x.indisvalid
AND n.nspname = current_schema()
AND t.relname IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'store')
"""


async def complete_postgres(execute: Execute) -> None:
    """Build invalid indexes again, without locking out writers."""
    for (name,) in await execute(_INVALID_INDEXES):
        await execute(f"REINDEX INDEX CONCURRENTLY {name}")


# -- MySQL and MariaDB ---------------------------------------------------------------------------

_BINARY = (
    "CHARACTER SET utf8mb4 "
    "/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
)
_ID = f"VARCHAR(150) {_BINARY} NOT NULL"
_OPTIONAL_ID = f"VARCHAR(150) {_BINARY} NULL"
_PATH = f"VARCHAR(2000) {_BINARY} NOT NULL DEFAULT ''"
_TIME = "TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6)"

_MYSQL_COLUMNS = {
    "checkpoints": {
        "thread_id": _ID,
        "checkpoint_ns": _PATH,
        "checkpoint_id": _ID,
        "parent_checkpoint_id": _OPTIONAL_ID,
        "type": _OPTIONAL_ID,
    },
    "checkpoint_blobs": {
        "thread_id": _ID,
        "checkpoint_ns": _PATH,
        "channel": _ID,
        "version": _ID,
        "type": _ID,
    },
    "checkpoint_writes": {
        "thread_id": _ID,
        "checkpoint_ns": _PATH,
        "checkpoint_id": _ID,
        "task_id": _ID,
        "channel": _ID,
        "type": _OPTIONAL_ID,
        "task_path": _PATH,
    },
    "store": {
        "prefix": f"VARCHAR(500) {_BINARY} NOT NULL",
        "key": _ID,
        "created_at": _TIME,
        "updated_at": _TIME,
    },
}

_MYSQL_UNFINISHED = """
SELECT table_name, column_name
FROM information_schema.columns
WHERE table_schema = DATABASE()
AND table_name IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'store')
AND (
    (data_type = 'varchar' AND collation_name NOT IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin'))
    OR (data_type = 'timestamp' AND datetime_precision <> 6)
)
"""


async def complete_mysql(execute: Execute) -> None:
    """Give ids the binary collation and times their microseconds, table by table, where needed."""
    unfinished: Iterable[Sequence[Any]] = await execute(_MYSQL_UNFINISHED)
    tables = {_text(table) for table, column in unfinished if _is_known(table, column)}
    for table, columns in _MYSQL_COLUMNS.items():
        if table in tables:
            changes = ", ".join(f"MODIFY `{name}` {kind}" for name, kind in columns.items())
            await execute(f"ALTER TABLE `{table}` {changes}, DEFAULT {_BINARY}")


def _is_known(table: Any, column: Any) -> bool:
    # A column that a later LangGraph brings is its own; the table's default serves it.
    return _text(column) in _MYSQL_COLUMNS.get(_text(table), {})


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
