"""The shape of a database, read from its catalog, and how it differs from the expected one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deerstore.schema.expected import Column, Index, Table, column_type, expected_tables

if TYPE_CHECKING:
    from deerstore.config.url import Engine
    from deerstore.schema.engines import SchemaEngine
    from deerstore.schema.migrations import Migration

__all__ = ["ActualColumn", "ActualIndex", "ActualTable", "Difference", "compare", "read_shape"]

# What engines write differently around the same predicate.
_NOISE = frozenset({"and", "any", "array", "character", "in", "is", "text", "varying"})


@dataclass(frozen=True)
class ActualColumn:
    """A column as the catalog has it; ``type`` in lower case, without a display width."""

    name: str
    type: str
    nullable: bool
    default: str | None
    key: int


@dataclass(frozen=True)
class ActualIndex:
    """An index as the catalog has it. An invalid one is left of a build that was cut off."""

    name: str
    columns: tuple[str, ...]
    unique: bool
    primary: bool
    valid: bool
    where: str | None


@dataclass
class ActualTable:
    """A table as the catalog has it."""

    name: str
    columns: dict[str, ActualColumn] = field(default_factory=dict)
    indexes: dict[str, ActualIndex] = field(default_factory=dict)
    triggers: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Difference:
    """One way in which a database differs from the expected shape.

    ``kind`` is ``table``, ``column``, ``type``, ``nullability``, ``default``, ``key``, ``index``
    or ``trigger``. ``fatal``: queries fail without it.
    """

    kind: str
    table: str
    name: str
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        return self.message


def read_shape(engine: SchemaEngine) -> dict[str, ActualTable]:
    """Every table of the database by name; reads the catalog only."""
    tables = {str(name): ActualTable(str(name)) for (name,) in engine.query("schema.tables")}
    for table, name, kind, nullable, default, key in engine.query("schema.columns"):
        if table in tables:
            tables[table].columns[name] = ActualColumn(
                name, _plain_type(kind), bool(nullable), default, int(key)
            )
    parts: dict[tuple[str, str], list[str]] = {}
    facts: dict[tuple[str, str], tuple[bool, bool, bool, str | None]] = {}
    for table, name, unique, primary, valid, _, column, where in engine.query("schema.indexes"):
        parts.setdefault((table, name), []).append(_bare_name(column or "<expression>"))
        facts[table, name] = (bool(unique), bool(primary), bool(valid), where)
    for (table, name), columns in parts.items():
        if table in tables:
            unique, primary, valid, where = facts[table, name]
            tables[table].indexes[name] = ActualIndex(
                name, tuple(columns), unique, primary, valid, where
            )
    for table, name in engine.query("schema.triggers"):
        if table in tables:
            tables[table].triggers.add(name)
    return tables


def triggers_of(table: str, migrations: Sequence[Migration]) -> list[str]:
    """The names of the triggers that the migrations put on a table."""
    pattern = re.compile(rf"CREATE\s+TRIGGER\s+(\w+)\s[^;]*?\sON\s+{table}\b")
    matches = (
        pattern.match(statement) for migration in migrations for statement in migration.statements
    )
    return [match[1] for match in matches if match]


def compare(
    engine: Engine, actual: dict[str, ActualTable], migrations: Sequence[Migration]
) -> list[Difference]:
    """How the database differs from the expected shape; what it has beyond that is its own."""
    found: list[Difference] = []
    for table in expected_tables(engine):
        present = actual.get(table.name)
        if present is None:
            found.append(
                Difference(
                    "table", table.name, table.name, f"table {table.name} is missing", fatal=True
                )
            )
            continue
        for column in table.columns:
            found += _compare_column(engine, table, column, present.columns.get(column.name))
        found += _compare_key(table, present)
        for index in table.indexes:
            if find_index(index, present) is None:
                found.append(_index_difference(engine, table, index, present))
        for trigger in triggers_of(table.name, migrations):
            if trigger not in present.triggers:
                found.append(
                    Difference(
                        "trigger",
                        table.name,
                        trigger,
                        f"trigger {trigger} on {table.name} is missing",
                        fatal=True,
                    )
                )
    return found


def find_index(index: Index, table: ActualTable) -> ActualIndex | None:
    """The usable index that does what ``index`` is for.

    A unique constraint counts by its columns: SQLite names the index behind it as it likes.
    """
    for candidate in table.indexes.values():
        if (index.constraint or candidate.name == index.name) and _same_index(index, candidate):
            return candidate
    return None


def _same_index(index: Index, actual: ActualIndex) -> bool:
    return (
        actual.valid
        and actual.columns == index.columns
        and actual.unique == index.unique
        and _predicate(actual.where) == _predicate(index.where)
    )


def _index_difference(
    engine: Engine, table: Table, index: Index, actual: ActualTable
) -> Difference:
    there = actual.indexes.get(index.name)
    what = "unique index" if index.unique else "index"
    if there is None:
        message = f"{what} {index.name} on {table.name} is missing"
    elif not there.valid:
        message = f"{what} {index.name} on {table.name} is invalid: its build was cut off"
    else:
        message = (
            f"{what} {index.name} on {table.name} is another one: it has "
            f"({', '.join(there.columns)}), not ({', '.join(index.columns)})"
            if there.columns != index.columns
            else f"{what} {index.name} on {table.name} differs in uniqueness or in its WHERE"
        )
    fatal = there is None and engine in index.forced
    return Difference("index", table.name, index.name, message, fatal=fatal)


def _compare_key(table: Table, actual: ActualTable) -> list[Difference]:
    wanted = [column.name for column in sorted(table.columns, key=lambda c: c.key) if column.key]
    keyed = sorted((c for c in actual.columns.values() if c.key), key=lambda column: column.key)
    if [column.name for column in keyed] == wanted:
        return []
    return [
        Difference(
            "key", table.name, table.name, f"primary key of {table.name} is not {', '.join(wanted)}"
        )
    ]


def _compare_column(
    engine: Engine, table: Table, column: Column, actual: ActualColumn | None
) -> list[Difference]:
    where = f"column {table.name}.{column.name}"
    if actual is None:
        return [Difference("column", table.name, column.name, f"{where} is missing", fatal=True)]
    found = []
    wanted = column_type(column.kind, engine)
    if actual.type != wanted and actual.type not in _ALSO_GOOD.get((engine, column.kind), ()):
        found.append(
            Difference(
                "type", table.name, column.name, f"{where} is {actual.type}, expected {wanted}"
            )
        )
    if actual.nullable != column.null:
        is_, should = ("may", "may not") if actual.nullable else ("may not", "may")
        found.append(
            Difference(
                "nullability",
                table.name,
                column.name,
                f"{where} {is_} be NULL, expected that it {should}",
            )
        )
    # No INSERT of deerstore relies on a default.
    wants_default = column.default is not None and not (column.bare and actual.default is None)
    if wants_default and _plain_default(actual.default) != column.default:
        found.append(
            Difference(
                "default",
                table.name,
                column.name,
                f"{where} has the default {actual.default or 'none'}, expected {column.default}",
            )
        )
    return found


# Types of an adopted database that every query takes as they are.
_ALSO_GOOD: dict[tuple[Engine, str], tuple[str, ...]] = {
    ("postgres", "json"): ("jsonb",),
    ("postgres", "time"): ("timestamp without time zone",),
}


def _plain_type(text: str) -> str:
    lowered = " ".join(text.lower().split())
    # MariaDB prints a display width with every integer, and MySQL 8 only with TINYINT(1).
    return re.sub(
        r"^(bigint|int|smallint)\(\d+\)",
        r"\1",
        re.sub(r"^tinyint\((?!1\))\d+\)", "tinyint", lowered),
    )


def _plain_default(text: str | None) -> str | None:
    # PostgreSQL adds the type ('{}'::json), MySQL 8 leaves the quotes out.
    if text is None:
        return None
    text = text.partition("::")[0].strip()
    return text if text.startswith("'") or text.isdigit() else f"'{text}'"


def _bare_name(text: str) -> str:
    return text.strip('"`')


def _predicate(text: str | None) -> frozenset[str]:
    """The words of a predicate, by which two spellings of it are compared."""
    words: Iterable[str] = re.findall(r"[a-z_]+", (text or "").lower())
    return frozenset(words) - _NOISE
