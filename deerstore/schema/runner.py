"""Runs planned statements, each its own step, and says which one failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    for statement in statements:
        if statement.rewrites:
            logger.warning("will run: %s (%s)", head(statement.sql), statement.note)
    steps = _Steps(engine, "adoption", [statement.sql for statement in statements], progress)
    with steps.explained():
        steps.run()


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
        steps = _Steps(engine, f"migration {migration.id}", migration.statements, progress)
        with steps.explained():
            if together:
                engine.in_transaction(steps.run, steps.part)
            else:
                steps.run()
        log.mark(migration)
        logger.info("applied migration %s", migration.id)


class _Steps:
    """Statements in a row; remembers at which one they are."""

    def __init__(
        self, engine: SchemaEngine, part: str, statements: Sequence[str], progress: Progress
    ) -> None:
        self.part = part
        self._engine = engine
        self._statements = statements
        self._progress = progress
        self._at = ""

    def run(self) -> None:
        total = len(self._statements)
        for number, statement in enumerate(self._statements, start=1):
            text = head(statement)
            self._at = f"{self.part}, step {number} of {total} ({text})"
            self._progress(f"{self.part} {number}/{total}: {text}")
            self._engine.run(statement)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the engine's error into one that names the step and repeats the engine's words."""
        try:
            yield
        except self._engine.driver.Error as error:
            text = f"{self._at} failed: {self._engine.message(error)}"
            if self._engine.is_disconnect(error):
                raise ConnectionLostError(text) from error
            raise SchemaError(text) from error
