"""What an upgrade will do to a database, statement by statement, before it does it.

The dry run prints the plan and the upgrade runs it: there is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deerstore.errors import SchemaError
from deerstore.schema import ddl
from deerstore.schema.expected import Table, expected_tables
from deerstore.schema.shape import ActualTable, find_index

if TYPE_CHECKING:
    from deerstore.config.url import Engine
    from deerstore.schema.engines import SchemaEngine
    from deerstore.schema.migrations import Migration

__all__ = ["Branch", "PlannedStatement", "adoption_statements", "branch_of", "pending_statements"]

Branch = Literal["missing", "empty", "legacy", "versioned"]

_DEERFLOW = ("users", "runs", "run_events", "threads_meta", "feedback")

_LOCKS: dict[Engine, dict[str, str]] = {
    "sqlite": {
        "column": "writers wait; no row is touched",
        "index": "writers wait while the table is read once",
        "constraint": "writers wait while the table is read once",
    },
    "postgres": {
        "column": "ACCESS EXCLUSIVE for a moment; no row is touched",
        "rewrite": "ACCESS EXCLUSIVE while the whole table and its indexes are REWRITTEN: "
        "nobody can read or write it meanwhile",
        "sequence": "for a moment",
        "index": "SHARE UPDATE EXCLUSIVE: readers and writers go on",
        "constraint": "ACCESS EXCLUSIVE for a moment",
        "drop": "SHARE UPDATE EXCLUSIVE: readers and writers go on",
    },
    "mysql": {
        "column": "metadata lock for a moment",
        "index": "built in place: readers and writers go on",
    },
}


@dataclass(frozen=True)
class PlannedStatement:
    """One statement of an upgrade.

    ``part`` is ``adoption`` or the id of a migration; ``note`` says which lock it takes and
    whether it rewrites the table, where that is worth saying. ``rewrites`` marks a statement that
    keeps everybody out of a whole table for as long as it takes to copy it.
    """

    part: str
    sql: str
    note: str = ""
    rewrites: bool = False


def branch_of(applied: Sequence[str], shape: dict[str, ActualTable]) -> Branch:
    """Which of the three starts a database is; decided by what is there.

    ``alembic_version`` is not asked: it may be missing or empty beside every table.
    """
    if applied:
        return "versioned"
    return "legacy" if any(name in shape for name in _DEERFLOW) else "empty"


def pending_statements(
    migrations: Sequence[Migration], applied: Sequence[str]
) -> Iterator[PlannedStatement]:
    """The statements of the migrations that have not run."""
    for migration in migrations:
        if migration.id not in applied:
            for statement in migration.statements:
                yield PlannedStatement(migration.id, statement)


def adoption_statements(
    engine: SchemaEngine, migrations: Sequence[Migration], shape: dict[str, ActualTable]
) -> Iterator[PlannedStatement]:
    """What has to be added to tables that are there already, before the migrations run.

    The migrations create what is missing as a whole; they neither add a column to a table nor a
    constraint, and on PostgreSQL they would keep writers out while they build an index.
    Read the shape again after the statements have run: the next call gives none.
    """
    for table in expected_tables(engine.name):
        present = shape.get(table.name)
        if present is not None:
            _check_ours(engine, table, present)
            yield from _columns(engine.name, table, present)
            yield from _indexes(engine.name, table, present, migrations)


def _check_ours(engine: SchemaEngine, table: Table, present: ActualTable) -> None:
    """Refuse a table of the same name that is somebody else's."""
    missing = [
        column.name
        for column in table.columns
        if column.name not in present.columns and not column.null and column.default is None
    ]
    if missing:
        raise SchemaError(
            f"{engine.place()} has a table {table.name} that is neither DeerFlow's nor "
            f"deerstore's: it lacks {', '.join(missing)}. Nothing was changed; move that table "
            "away or give deerstore a database or schema of its own."
        )


def _columns(engine: Engine, table: Table, present: ActualTable) -> Iterator[PlannedStatement]:
    locks = _LOCKS[engine]
    added = [
        ddl.add_column(engine, column)
        for column in table.columns
        if column.name not in present.columns
    ]
    if engine != "postgres":
        for clause in added:
            yield PlannedStatement(
                "adoption", f"ALTER TABLE {table.name} {clause}", locks["column"]
            )
        return
    # Nothing else of DeerFlow's is altered: every query takes the rest as it is.
    widened = [
        column.name
        for column in table.columns
        if column.kind == "count"
        and (there := present.columns.get(column.name)) is not None
        and there.type in ("integer", "smallint")
    ]
    clauses = [*added, *(f"ALTER COLUMN {name} TYPE BIGINT" for name in widened)]
    if clauses:
        # One statement: the table is locked, and where it must be rewritten, once.
        yield PlannedStatement(
            "adoption",
            f"ALTER TABLE {table.name}\n    " + ",\n    ".join(clauses),
            locks["rewrite" if widened else "column"],
            rewrites=bool(widened),
        )
    if table.name == "run_events" and "id" in widened:
        yield PlannedStatement("adoption", _EVENT_SEQUENCE, locks["sequence"])


# A sequence made for a 32-bit column ends at 2147483647 also when the column is widened.
_EVENT_SEQUENCE = """DO $$
DECLARE
    owned TEXT := pg_get_serial_sequence('run_events', 'id');
BEGIN
    IF owned IS NOT NULL THEN
        EXECUTE format('ALTER SEQUENCE %s AS BIGINT', owned);
    END IF;
END
$$"""


def _indexes(
    engine: Engine, table: Table, present: ActualTable, migrations: Sequence[Migration]
) -> Iterator[PlannedStatement]:
    locks = _LOCKS[engine]
    for index in table.indexes:
        if find_index(index, present) is not None:
            continue
        there = present.indexes.get(index.name)
        if there is not None and not there.valid:
            yield PlannedStatement(
                "adoption", ddl.drop_index(engine, table.name, index.name), locks["drop"]
            )
        elif there is not None and not index.constraint:
            # Another index of this name: DeerFlow's or the DBA's, reported as drift and left alone.
            continue
        if index.constraint:
            for statement in ddl.create_constraint(engine, table.name, index):
                lock = "index" if statement.startswith("CREATE") else "constraint"
                if not (lock == "index" and there is not None and there.valid):
                    yield PlannedStatement("adoption", statement, locks[lock])
        elif engine == "postgres":
            statement = ddl.create_index(engine, table.name, index, migrations)
            yield PlannedStatement("adoption", ddl.concurrently(statement), locks["index"])
