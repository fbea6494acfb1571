"""deerstore's own queries."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from deerstore.queries import CompiledQuery, LazyCatalog

__all__ = ["deerstore_queries", "engine_queries", "is_own", "may_fail"]

# An UPDATE has no ON CONFLICT: the key may be taken between the look at it and the write.
_MAY_FAIL = frozenset({"users.update_user"})
_ROOT = Path(__file__).resolve().parent.parent / "sql"


@cache
def deerstore_queries() -> LazyCatalog:
    """The catalog of ``deerstore/sql``; a file is read once per process, when it is needed."""
    return LazyCatalog(_ROOT)


@cache
def engine_queries(topic: str, engine: str) -> LazyCatalog:
    """The queries of ``deerstore/sql/<topic>/<engine>``: what this engine alone is asked."""
    return LazyCatalog(_ROOT / topic).load(engine)


def is_own(query: CompiledQuery) -> bool:
    """Whether a query is one of deerstore's own."""
    return _ROOT in Path(query.source.file).resolve().parents


@cache
def may_fail(query: CompiledQuery) -> bool:
    """Whether what a caller gives can make the statement fail.

    deerstore's own are written so that a duplicate or a missing row is a result and not a failed
    statement.
    """
    return not is_own(query) or query.name in _MAY_FAIL
