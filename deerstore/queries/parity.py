"""Whether a query is the same query on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deerstore.queries.catalog import Query, QueryCatalog
from deerstore.queries.compiler import Definition

__all__ = ["Difference", "parity"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which an engine's version of a query differs from the first engine's."""

    query: str
    engine: str
    message: str

    def __str__(self) -> str:
        return f"{self.query} ({self.engine}): {self.message}"


_Aspect = tuple[str, Callable[[Definition], str]]

_ASPECTS: tuple[_Aspect, ...] = (
    ("cardinality", lambda one: f":{one.declared.cardinality}"),
    ("parameters", lambda one: _listed(f"{p.name}: {p.type}" for p in one.params)),
    (
        "result columns",
        lambda one: _listed(
            (f"{c.name}: {c.type}{'?' if c.nullable else ''}" for c in one.columns or ()),
            ordered=True,
        ),
    ),
    (
        "variants",
        lambda one: _listed(
            f"{name}: {' | '.join(choices)}" for name, (choices, _) in one.declared.variants.items()
        ),
    ),
)


def _listed(items: Iterable[str], *, ordered: bool = False) -> str:
    return ", ".join(items if ordered else sorted(items)) or "none"


def parity(catalog: QueryCatalog, *, engines: Sequence[str] | None = None) -> list[Difference]:
    """What keeps the catalog's queries from being the same on ``engines`` (default: all read).

    Compared are names, cardinality, parameters with their types, result columns with their types
    and order, variants with their choices and default, and which parameters each variant needs.
    The order of parameters and the number of statements may differ. Static: no database is asked.
    """
    wanted = tuple(catalog.engines if engines is None else engines)
    differences: list[Difference] = []
    for query in catalog.values():
        present = [engine for engine in wanted if engine in query.engines]
        differences += [
            Difference(query.name, engine, "there is no such query")
            for engine in wanted
            if engine not in present
        ]
        for engine in present[1:]:
            differences += _compare(query, present[0], engine)
    return differences


def _compare(query: Query, first: str, engine: str) -> list[Difference]:
    one, other = query.definition(first), query.definition(engine)
    found = [
        Difference(query.name, engine, f"{aspect}: {show(other)}; {first} has {show(one)}")
        for aspect, show in _ASPECTS
        if show(one) != show(other)
    ]
    for binding in one.templates.keys() & other.templates.keys():
        needed = sorted(p.name for p in one.templates[binding].params)
        there = sorted(p.name for p in other.templates[binding].params)
        if needed != there:
            variant = " ".join(f"{name}={choice}" for name, choice in binding)
            found.append(
                Difference(
                    query.name,
                    engine,
                    f"variant {variant} needs {_listed(there)}; {first} needs {_listed(needed)}",
                )
            )
    return found
