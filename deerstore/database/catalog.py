"""deerstore's own queries."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from deerstore.queries import CompiledQuery, LazyCatalog

__all__ = ["deerstore_queries", "engine_queries", "is_own"]

_ROOT = Path(__file__).resolve().parent.parent / "sql"


@cache
def deerstore_queries() -> LazyCatalog:
    """The catalog of ``deerstore/sql``; a file is read once per process, when it is needed."""
    return LazyCatalog(_ROOT)


@cache
def engine_queries(topic: str, engine: str) -> LazyCatalog:
    """The queries of ``deerstore/sql/<topic>/<engine>``: what this engine alone is asked."""
    return LazyCatalog(_ROOT / topic).load(engine)


@cache
def is_own(query: CompiledQuery) -> bool:
    """Whether a query is one of deerstore's own.

    These are written so that what a caller may get wrong (a duplicate, a missing row) is a result
    and not a failed statement.
    """
    return _ROOT in Path(query.source.file).resolve().parents
