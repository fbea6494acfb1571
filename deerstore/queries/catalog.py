"""The catalog: a folder of query files as named handles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from deerstore.errors import NotFoundError
from deerstore.queries.model import (
    ENGINES,
    Cardinality,
    Codec,
    Column,
    CompiledQuery,
    Parameter,
    Source,
)

__all__ = ["Query", "QueryCatalog", "UnknownQueryError", "load_queries"]


class UnknownQueryError(NotFoundError, KeyError):
    """The catalog, or the engine's part of it, has no query of this name."""

    __str__ = Exception.__str__


class Query:
    """A query by name, the same handle for every engine. Bound to one variant."""

    name: str
    cardinality: Cardinality
    params: tuple[Parameter, ...]
    columns: tuple[Column, ...] | None
    doc: str
    plan: str
    writes: bool
    choices: Mapping[str, tuple[str, ...]]
    binding: Mapping[str, str]
    sources: Mapping[str, Source]
    variants: tuple[Query, ...]

    def variant(self, **choices: bool | str) -> Query:
        """This query with some variants chosen anew; a cached look-up."""
        raise NotImplementedError

    def compiled(self, target: str | Codec) -> CompiledQuery:
        """The query for an engine (values pass unencoded) or for an engine's codec."""
        raise NotImplementedError


class QueryCatalog(Mapping[str, Query]):
    """Queries by name. Iteration is in the order of the files."""

    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Query:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def load_queries(
    path: str | os.PathLike[str], *, engines: Sequence[str] = ENGINES
) -> QueryCatalog:
    raise NotImplementedError
