"""Applies the pending migrations, each statement its own step."""

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

__all__ = ["apply_pending"]

logger = logging.getLogger("deerstore.schema")


def apply_pending(
    engine: SchemaEngine,
    log: MigrationLog,
    migrations: Sequence[Migration],
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...]:
    """Apply the migrations that the log does not have, and return their ids.

    Call it while holding the setup lock. yoyo's own lock row is held meanwhile.

    Raises :class:`~deerstore.errors.SchemaError` for a step that the engine refuses, with the
    migration, the step and the engine's own message. The steps before it stay: they may run again.
    """
    applied = set(log.applied())
    pending = [migration for migration in migrations if migration.id not in applied]
    if not pending:
        return ()
    log.create()
    with log.yoyo_lock():
        # A yoyo that held the lock row until now may have done some of the work.
        applied = set(log.applied())
        done = [migration for migration in pending if migration.id not in applied]
        for migration in done:
            _apply(engine, migration, progress)
            log.mark(migration)
            logger.info("applied migration %s", migration.id)
    return tuple(migration.id for migration in done)


def _apply(engine: SchemaEngine, migration: Migration, progress: Callable[[str], None]) -> None:
    # MySQL commits at each DDL statement: a transaction around them would be a false promise, and
    # its lost savepoint would hide the error of a failing step.
    together = migration.transactional and engine.name != "mysql"
    total = len(migration.statements)
    with engine.transaction() if together else nullcontext():
        for number, statement in enumerate(migration.statements, start=1):
            progress(f"{migration.id} {number}/{total}: {head(statement)}")
            try:
                engine.run(statement)
            except engine.driver.Error as error:
                text = (
                    f"migration {migration.id}, step {number} of {total} ({head(statement)}) "
                    f"failed: {engine.message(error)}"
                )
                if engine.is_disconnect(error):
                    raise ConnectionLostError(text) from error
                raise SchemaError(text) from error
