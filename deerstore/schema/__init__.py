"""The schema: made, adopted, upgraded and checked.

Everything that knows DDL lives here. Application tables are changed by the migrations in
``migrations/<engine>`` only; LangGraph's tables by LangGraph's ``setup()``, inside our lock.
"""

from __future__ import annotations

from deerstore.schema.plan import PlannedStatement
from deerstore.schema.setup import SetupReport, ensure_database, setup_schema
from deerstore.schema.status import Drift, SchemaStatus, UpgradePlan, plan_upgrade, schema_status

__all__ = [
    "Drift",
    "PlannedStatement",
    "SchemaStatus",
    "SetupReport",
    "UpgradePlan",
    "ensure_database",
    "plan_upgrade",
    "schema_status",
    "setup_schema",
]
