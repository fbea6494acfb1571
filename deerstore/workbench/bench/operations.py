"""All operations, in the order of the report."""

from __future__ import annotations

from deerstore.workbench.bench.operation import Operation, Repositories, repositories
from deerstore.workbench.bench.reads import READS
from deerstore.workbench.bench.writes import WRITES

__all__ = ["OPERATIONS", "Operation", "Repositories", "repositories"]

_TABLES = ("users", "runs", "run_events", "threads", "feedback")

OPERATIONS: tuple[Operation, ...] = tuple(
    sorted(READS + WRITES, key=lambda operation: _TABLES.index(operation.name.partition(".")[0]))
)
"""Reads before writes within each table."""
