"""The schema: made, adopted, upgraded and checked.

Everything that knows DDL lives here. Application tables are changed by the migrations in
``migrations/<engine>`` only; LangGraph's tables by LangGraph's ``setup()``, inside our lock.
"""

from __future__ import annotations

from deerstore.schema.setup import SetupReport, ensure_database, setup_schema

__all__ = ["SetupReport", "ensure_database", "setup_schema"]
