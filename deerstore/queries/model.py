"""What a query is once it is read: types, parameters, columns, steps, and the engine's codec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal

__all__ = [
    "CARDINALITIES",
    "ENGINES",
    "TYPES",
    "Cardinality",
    "Codec",
    "Column",
    "CompiledQuery",
    "CompiledStep",
    "Engine",
    "Parameter",
    "Source",
    "ValueType",
]

Engine = Literal["sqlite", "postgres", "mysql"]
ENGINES: tuple[Engine, ...] = ("sqlite", "postgres", "mysql")

Cardinality = Literal["one", "optional", "many", "value", "affected", "exec", "stream"]
CARDINALITIES: tuple[Cardinality, ...] = (
    "one",
    "optional",
    "many",
    "value",
    "affected",
    "exec",
    "stream",
)

TYPES = ("text", "int", "float", "bool", "timestamp", "json", "bytes")

Transform = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a query is written. ``line`` counts from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a parameter: ``text``, ``text?``, ``text[]``, ``text?[]``, ``text[]?``."""

    base: str
    nullable: bool = False
    is_list: bool = False
    element_nullable: bool = False

    def __str__(self) -> str:
        inner = f"{self.base}?" if self.element_nullable else self.base
        return f"{inner}{'[]' if self.is_list else ''}{'?' if self.nullable else ''}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that the caller gives, as its ``-- param`` line declares it."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Column:
    """A result column, as its ``-- column`` line declares it."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """How one engine's driver wants values, and gives them. Made once per engine.

    ``encoders`` maps a type (``"timestamp"``) to a function that makes the driver's value out of
    a checked one (a ``timestamp`` is aware and in UTC by then); a missing or ``None`` entry
    passes it on as it is. ``None`` values are never encoded, but for the JSON null of a ``json``
    parameter that may not be SQL NULL.
    A list is encoded element by element and given to the driver as a ``list``, unless there is an
    entry for the list as a whole (``"timestamp[]"``): that one gets the checked, unencoded list.
    ``decoders`` maps the type of a result column to a function over the driver's value, which is
    never ``None``. ``shortcuts`` gives some of them a quicker form for the values that are stored
    in practice: an expression over ``{value}``, ``{decode}`` (the function) and ``{extra}`` (the
    second element). Where it raises ValueError, TypeError or AttributeError, the function is asked.
    """

    engine: str
    encoders: Mapping[str, Transform | None] = field(default_factory=dict)
    decoders: Mapping[str, Transform | None] = field(default_factory=dict)
    shortcuts: Mapping[str, tuple[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledStep:
    """One statement in the driver's style.

    ``sql`` carries the query's name in a comment. Placeholders are ``$1`` (PostgreSQL), ``?``
    (SQLite) or ``%s`` (MySQL, every other ``%`` doubled: always hand the driver a tuple of
    arguments, also an empty one).
    """

    name: str
    """Empty for the only statement of a query."""
    sql: str
    order: tuple[str, ...]
    """The parameter of each argument; a repeated name stands once where the driver numbers
    (PostgreSQL), else as often as in the text."""
    keyword: str
    """The statement's verb in capitals, behind any WITH: ``SELECT``, ``INSERT``, …"""
    each: bool
    """The arguments are one tuple per element of the list parameters."""
    writes: bool
    returns_rows: bool
    returns: tuple[str, ...]
    """Names that later steps use for the columns of this step's first row."""
    gives_id: bool
    """MySQL: its row is the one number that the statement gave to LAST_INSERT_ID(…). It has none
    when the statement matched nothing."""
    carried: tuple[tuple[int, str], ...]
    """Arguments that come from an earlier step: position and name. ``bind`` leaves them None."""
    line: int
    """Where the statement begins in its file."""

    def fill(self, args: Any, found: Mapping[str, Any]) -> Any:
        """What ``bind`` gave for this step, with the carried values put in, for the driver.

        A tuple of arguments, for an ``each`` step a list of tuples. ``found`` maps the names to
        raw values; one that is missing (the earlier step returned no row) is NULL.
        """
        if not self.carried:
            return args
        if not self.each:
            return self._filled(args, found)
        if type(args) is list:
            return [self._filled(row, found) for row in args]
        columns = list(args)
        for position, name in self.carried:
            columns[position] = repeat(found.get(name))
        return list(zip(*columns, strict=False))

    def _filled(self, args: Sequence[Any], found: Mapping[str, Any]) -> tuple[Any, ...]:
        values = list(args)
        for position, name in self.carried:
            values[position] = found.get(name)
        return tuple(values)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """One query, one variant, one engine: everything that a call needs, computed beforehand."""

    name: str
    engine: str
    cardinality: Cardinality
    writes: bool
    params: tuple[Parameter, ...]
    """The parameters that this variant needs."""
    columns: tuple[Column, ...] | None
    steps: tuple[CompiledStep, ...]
    result_step: int
    """Index of the step that gives the result: the last one that returns rows, for ``affected``
    and ``exec`` the last one."""
    source: Source
    bind: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Parameters by name → one entry per step, for the step's ``fill``: a tuple of arguments, for
    an ``each`` step a list of tuples, or while they wait for a carried value a tuple of their
    columns. Raises :class:`~deerstore.errors.InvalidValueError` for a missing, unknown or ill-typed
    parameter."""
    decoder: Callable[[Sequence[Sequence[Any]]], list[tuple[Any, ...]]] | None
    """A driver's rows → tuples of typed values; ``None`` when there is nothing to convert."""

    def decode_rows(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """All rows as tuples of typed values."""
        decoder = self.decoder
        return [tuple(row) for row in rows] if decoder is None else decoder(rows)
