"""Whether a query is the same query on every engine."""

from __future__ import annotations

from dataclasses import dataclass

from deerstore.queries.catalog import QueryCatalog

__all__ = ["Difference", "parity"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which an engine's version of a query differs."""

    query: str
    engine: str
    message: str


def parity(catalog: QueryCatalog) -> list[Difference]:
    raise NotImplementedError
