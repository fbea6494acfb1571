"""Runs planned statements, each its own step, and says which one failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from deerstore.errors import ConnectionLostError, SchemaError
from deerstore.schema.engines.base import head

if TYPE_CHECKING:
    from deerstore.schema.engines import SchemaEngine
    from deerstore.schema.log import MigrationLog
    from deerstore.schema.migrations import Migration
    from deerstore.schema.plan import PlannedStatement

__all__ = ["Progress", "apply_migrations", "apply_statements"]

logger = logging.getLogger("deerstore.schema")

Progress = Callable[[str], None]
"""Called with one line before each step, on the thread that does the work."""


def apply_statements(
    engine: SchemaEngine, statements: Sequence[PlannedStatement], progress: Progress
) -> None:
    """Run the statements of an adoption, one by one."""
    for number, statement in enumerate(statements, start=1):
        if statement.rewrites:
            logger.warning("%s (%s)", head(statement.sql), statement.note)
        _step(engine, "adoption", number, len(statements), statement.sql, progress)


def apply_migrations(
    engine: SchemaEngine, log: MigrationLog, migrations: Sequence[Migration], progress: Progress
) -> None:
    """Apply migrations and mark them, in order.

    Raises :class:`~deerstore.errors.SchemaError` for a step that the engine refuses, with the
    migration, the step and the engine's own message. What was done before it may be done again.
    """
    for migration in migrations:
        # MySQL commits at each DDL statement: a transaction around them would be a false promise,
        # and its lost savepoint would hide the error of a failing step.
        together = migration.transactional and engine.name != "mysql"
        total = len(migration.statements)
        with engine.transaction() if together else nullcontext():
            for number, statement in enumerate(migration.statements, start=1):
                _step(engine, f"migration {migration.id}", number, total, statement, progress)
        log.mark(migration)
        logger.info("applied migration %s", migration.id)


def _step(
    engine: SchemaEngine, part: str, number: int, total: int, statement: str, progress: Progress
) -> None:
    progress(f"{part} {number}/{total}: {head(statement)}")
    try:
        engine.run(statement)
    except engine.driver.Error as error:
        text = (
            f"{part}, step {number} of {total} ({head(statement)}) failed: {engine.message(error)}"
        )
        if engine.is_disconnect(error):
            raise ConnectionLostError(text) from error
        raise SchemaError(text) from error
