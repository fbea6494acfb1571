"""deerstore's own queries by name, bound to a variant, looked up once."""

from __future__ import annotations

from functools import cache

from deerstore.database.catalog import deerstore_queries
from deerstore.queries import Query

__all__ = ["statement"]


@cache
def statement(name: str, **variant: bool | str) -> Query:
    """The query ``name`` of deerstore's catalog, with its variants chosen."""
    query = deerstore_queries()[name]
    return query.variant(**variant) if variant else query
