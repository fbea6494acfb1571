"""DDL that is not in a migration: what adoption adds, and what restores a dropped part.

What a migration creates is restored with the migration's own statement, so that it is written
once. Only columns, constraints and MySQL's inline indexes are spelled here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deerstore.database.catalog import deerstore_queries
from deerstore.schema.expected import Column, Index, Table, column_type, expected_tables

if TYPE_CHECKING:
    from deerstore.config.url import Engine
    from deerstore.schema.migrations import Migration
    from deerstore.schema.shape import ActualTable, Difference

__all__ = ["add_column", "concurrently", "create_constraint", "create_index", "restore"]

# What a NOT NULL column without a default gets in rows that have lost theirs.
_STAND_INS = {
    "time": "'1970-01-01 00:00:00.000000'",
    "index_time": "'1970-01-01 00:00:00.000000'",
    "json": "'{}'",
    "count": "0",
    "flag": "FALSE",
    "double": "0",
    "pinned": "0",
}


def add_column(engine: Engine, column: Column) -> str:
    """``ADD COLUMN …`` for one column, for any number of rows that are there already."""
    return f"ADD COLUMN {_definition(engine, column)}"


def _definition(engine: Engine, column: Column) -> str:
    words = [
        column.name,
        column_type(column.kind, engine).upper().replace("CHARACTER VARYING", "VARCHAR"),
    ]
    if column.generated:
        return " ".join([*words, f"AS ({column.generated}) STORED"])
    default = column.default
    if default is None and not column.null:
        default = _STAND_INS.get(column.kind, "''")
    if default is not None and not (
        engine == "mysql" and column_type(column.kind, engine).endswith("text")
    ):
        words.append(f"DEFAULT {default}")
    if not column.null:
        words.append("NOT NULL")
    return " ".join(words)


def create_index(engine: Engine, table: str, index: Index, migrations: Sequence[Migration]) -> str:
    """The statement that creates an index; the migration's own where there is one."""
    pattern = re.compile(rf"CREATE\s+(UNIQUE\s+)?INDEX\s+(IF NOT EXISTS\s+)?{index.name}\b")
    for migration in migrations:
        for statement in migration.statements:
            if pattern.match(statement):
                return statement
    unique = "UNIQUE " if index.unique else ""
    where = f" WHERE {index.where}" if index.where else ""
    present = "" if engine == "mysql" else "IF NOT EXISTS "
    return (
        f"CREATE {unique}INDEX {present}{index.name} ON {table} ({', '.join(index.columns)}){where}"
    )


def concurrently(statement: str) -> str:
    """The same index built without keeping writers out (PostgreSQL)."""
    return re.sub(r"\bINDEX\b", "INDEX CONCURRENTLY", statement, count=1)


def create_constraint(engine: Engine, table: str, index: Index) -> tuple[str, ...]:
    """The statements that add a unique constraint to a table that is there already."""
    columns = ", ".join(index.columns)
    if engine == "postgres":
        return (
            f"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {index.name} ON {table} ({columns})",
            f"ALTER TABLE {table} ADD CONSTRAINT {index.name} UNIQUE USING INDEX {index.name}",
        )
    # SQLite adds no constraint to a table; a unique index refuses the same rows.
    return (f"CREATE UNIQUE INDEX IF NOT EXISTS {index.name} ON {table} ({columns})",)


def drop_index(engine: Engine, table: str, name: str) -> str:
    """The statement that removes an index of the right name and the wrong form."""
    if engine == "mysql":
        return f"ALTER TABLE {table} DROP INDEX {name}"
    return f"DROP INDEX {'CONCURRENTLY ' if engine == 'postgres' else ''}IF EXISTS {name}"


def restore(
    engine: Engine,
    difference: Difference,
    actual: dict[str, ActualTable],
    migrations: Sequence[Migration],
) -> tuple[str, ...]:
    """The statements that undo one difference, or one comment where no statement can.

    They restore the shape; what a dropped column held is gone.
    """
    table = next(t for t in expected_tables(engine) if t.name == difference.table)
    if difference.kind == "table":
        return _whole_migration(engine, table.name, migrations)
    if difference.kind == "trigger":
        return _thread_index_again(engine, migrations)
    if difference.kind == "index":
        return _restore_index(engine, difference, table, actual, migrations)
    if difference.kind == "key":
        return (f"-- the primary key of {table.name} must be restored by hand",)
    column = next(c for c in table.columns if c.name == difference.name)
    if difference.kind == "column":
        return (f"ALTER TABLE {table.name} {add_column(engine, column)}",)
    return (_alter_column(engine, table.name, column, difference.kind),)


def _restore_index(
    engine: Engine,
    difference: Difference,
    table: Table,
    actual: dict[str, ActualTable],
    migrations: Sequence[Migration],
) -> tuple[str, ...]:
    index = next(i for i in table.indexes if i.name == difference.name)
    first: tuple[str, ...] = ()
    if index.name in actual[table.name].indexes:
        first = (drop_index(engine, table.name, index.name),)
    if index.constraint:
        return (*first, *create_constraint(engine, table.name, index))
    statement = create_index(engine, table.name, index, migrations)
    return (*first, concurrently(statement) if engine == "postgres" else statement)


def _alter_column(engine: Engine, table: str, column: Column, kind: str) -> str:
    if engine == "sqlite":
        return f"-- SQLite cannot alter {table}.{column.name}: the table must be rebuilt by hand"
    if engine == "mysql":
        return f"ALTER TABLE {table} MODIFY COLUMN {_definition(engine, column)}"
    change = {
        "type": f"TYPE {column_type(column.kind, engine).upper()}",
        "nullability": "DROP NOT NULL" if column.null else "SET NOT NULL",
        "default": f"SET DEFAULT {column.default}",
    }[kind]
    return f"ALTER TABLE {table} ALTER COLUMN {column.name} {change}"


def _whole_migration(
    engine: Engine, table: str, migrations: Sequence[Migration]
) -> tuple[str, ...]:
    """The migration that makes a table: every statement of it may run again."""
    pattern = re.compile(rf"CREATE TABLE IF NOT EXISTS {table}\b")
    own = next(m for m in migrations if any(pattern.match(s) for s in m.statements))
    if table == "threads_meta":
        # What is left of the old table's index speaks of threads that are gone.
        return (*own.statements, _empty_thread_index(engine))
    return own.statements


def _thread_index_again(engine: Engine, migrations: Sequence[Migration]) -> tuple[str, ...]:
    """The triggers' part of their migration, and the index filled anew.

    Rows that were written while a trigger was missing are not in the index.
    """
    own = next(m for m in migrations if any("threads_meta_index" in s for s in m.statements))
    made = [s for s in own.statements if not re.match(r"CREATE (TABLE|INDEX|UNIQUE)", s)]
    return (*made[:-1], _empty_thread_index(engine), made[-1])


def _empty_thread_index(engine: Engine) -> str:
    query = deerstore_queries().load(engine)["schema.empty_thread_index"]
    return query.compiled(engine).steps[0].sql
