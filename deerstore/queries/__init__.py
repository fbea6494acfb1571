"""The query registry: SQL files in, compiled queries out. It knows text, and no driver.

::

    catalog = load_queries("queries")            # queries/sqlite/*.sql, queries/postgres/*.sql, …
    query = catalog["runs.get_run"]              # the same handle for every engine
    query.variant(owner=True)                    # one of the variants written in the file
    query.compiled("sqlite").steps[0].sql        # what the driver gets

How to write the files: ``docs/query-files.md``.
"""

from __future__ import annotations

from deerstore.queries.catalog import Query, QueryCatalog, UnknownQueryError, load_queries
from deerstore.queries.lazy import LazyCatalog
from deerstore.queries.model import (
    ENGINES,
    Cardinality,
    Codec,
    Column,
    CompiledQuery,
    CompiledStep,
    Parameter,
    Source,
    ValueType,
)
from deerstore.queries.outline import outlines
from deerstore.queries.parity import Difference, parity

__all__ = [
    "ENGINES",
    "Cardinality",
    "Codec",
    "Column",
    "CompiledQuery",
    "CompiledStep",
    "Difference",
    "LazyCatalog",
    "Parameter",
    "Query",
    "QueryCatalog",
    "Source",
    "UnknownQueryError",
    "ValueType",
    "load_queries",
    "outlines",
    "parity",
]
