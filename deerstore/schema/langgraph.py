"""LangGraph's own tables: made by its migrations, in steps that a killed process may repeat.

LangGraph's ``setup()`` runs a statement and then notes its number. A process killed in between
leaves a statement that was run but not noted, which its next start runs again and fails. The same
statements are run here, and the first open one may find its work done.

What deerstore adds to these tables: on MySQL and MariaDB a collation that compares ids code point
by code point, trailing spaces included, and microseconds for the Store's times; on PostgreSQL an
index that a killed ``CREATE INDEX CONCURRENTLY`` left invalid is built again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple

from deerstore.config.url import Engine
from deerstore.database.catalog import engine_queries

__all__ = ["Execute", "Ledger", "complete_mysql", "complete_postgres", "run_migrations"]

Execute = Callable[[str, Sequence[Any] | None], Awaitable[Sequence[Sequence[Any]]]]
"""Runs one statement, committed at once, and gives its rows.

Without arguments (``None``) the text goes to the server as it is, every ``%`` in it included.
"""


class Ledger(NamedTuple):
    """LangGraph's statements for one of its surfaces, in their order.

    What was run is noted in the table ``checkpoint_migrations`` or ``store_migrations``.
    """

    surface: Literal["checkpoint", "store"]
    statements: Sequence[str]


async def run_migrations(
    engine: Engine,
    execute: Execute,
    ledger: Ledger,
    is_done_already: Callable[[Exception], bool],
) -> None:
    """Run what is not noted yet.

    ``is_done_already`` tells whether an error means that the statement's work is done.
    """
    surface, statements = ledger
    await execute(f"CREATE TABLE IF NOT EXISTS {surface}_migrations (v INTEGER PRIMARY KEY)", None)
    noted = await _query(engine, execute, f"ledger.last_{surface}_migration")
    first = noted[0][0] + 1 if noted else 0
    for number in range(first, len(statements)):
        try:
            await execute(statements[number], None)
        except Exception as error:
            if number != first or not is_done_already(error):
                raise
        await _query(engine, execute, f"ledger.note_{surface}_migration", number=number)


async def _query(
    engine: Engine, execute: Execute, name: str, **params: Any
) -> list[tuple[Any, ...]]:
    compiled = engine_queries("langgraph", engine)[name].compiled(engine)
    (args,) = compiled.bind(params)
    return compiled.decode_rows(await execute(compiled.steps[0].sql, args))


# -- PostgreSQL ----------------------------------------------------------------------------------


async def complete_postgres(execute: Execute) -> None:
    """Build invalid indexes again, without locking out writers."""
    for (name,) in await _query("postgres", execute, "tables.invalid_indexes"):
        await execute(f"REINDEX INDEX CONCURRENTLY {name}", None)


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


async def complete_mysql(execute: Execute) -> None:
    """Give ids the binary collation and times their microseconds, table by table, where needed."""
    unfinished = await _query("mysql", execute, "tables.unfinished_columns")
    # A column that a later LangGraph brings is its own; the table's default serves it.
    tables = {table for table, column in unfinished if column in _MYSQL_COLUMNS.get(table, {})}
    for table, columns in _MYSQL_COLUMNS.items():
        if table in tables:
            changes = ", ".join(f"MODIFY `{name}` {kind}" for name, kind in columns.items())
            await execute(f"ALTER TABLE `{table}` {changes}, DEFAULT {_BINARY}", None)
