"""``setup()``: every table made and brought up to date, by one process at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerstore.schema.engines import SchemaEngine, schema_engine
from deerstore.schema.log import MigrationLog
from deerstore.schema.migrations import load_migrations
from deerstore.schema.runner import apply_pending
from deerstore.schema.thread import SchemaThread

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.schema.engines.base import SetupLock

__all__ = ["SetupReport", "ensure_database", "setup_schema"]

logger = logging.getLogger("deerstore.schema")

_LOCK_POLL = 0.05
_LOCK_POLL_MAX = 0.5
_LOCK_REMINDER = 30.0


@dataclass(frozen=True)
class SetupReport:
    """What one call of :func:`setup_schema` did.

    ``applied`` are the ids of the migrations that it applied, ``version`` is the newest one of the
    database afterwards; ``waited`` are the seconds spent waiting for other processes.
    """

    applied: tuple[str, ...]
    version: str
    waited: float


async def setup_schema(
    config: StorageConfig,
    *,
    langgraph_setup: Callable[[], Awaitable[None]] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> SetupReport:
    """Create or upgrade every table of the database that ``config`` names.

    May run in any number of processes at once: one works, the others wait for as long as it takes.
    A process killed at any point leaves nothing that the next call does not complete.

    Args:
        config: the database. It is created when it is missing and the role may do that.
        langgraph_setup: makes LangGraph's own tables; called last, while the others still wait,
            since LangGraph's setup has no lock of its own.
        progress: called with one line before each step, on another thread.

    Raises:
        SchemaError: a step failed (the message names it and repeats the engine's own words), or
            the database is missing and may not be created (the message says what to run).
        SchemaTooNewError: a newer release made the database; nothing was written.
        ConnectionLostError: the server cannot be reached.
        MissingExtraError: the engine's packages are not installed.
    """
    engine = schema_engine(config)
    lock = engine.lock()

    def stop() -> None:
        engine.stopped.set()
        engine.interrupt()

    async with SchemaThread(stop) as thread:
        try:
            await thread.run(_prepare, engine)
            waited = await thread.run(_wait_for, engine, lock)
            report = await thread.run(_upgrade, engine, waited, progress)
            if langgraph_setup is not None:
                progress("LangGraph's tables")
                await langgraph_setup()
            return report
        finally:
            engine.stopped.clear()
            await thread.run(_end, engine, lock)


async def ensure_database(config: StorageConfig) -> None:
    """Create the database (and the PostgreSQL schema, the SQLite folder) when it is missing.

    Raises :class:`~deerstore.errors.SchemaError` with the statement to run when the role may not.
    """
    engine = schema_engine(config)

    def stop() -> None:
        engine.stopped.set()
        engine.interrupt()

    async with SchemaThread(stop) as thread:
        try:
            await thread.run(_prepare, engine)
        finally:
            await thread.run(engine.close)


def _prepare(engine: SchemaEngine) -> None:
    with engine.translated(f"cannot open {engine.place()}"):
        engine.create_database()


def _wait_for(engine: SchemaEngine, lock: SetupLock) -> float:
    """Take the lock, however long that takes; the seconds waited."""
    started = reminded = time.monotonic()
    pause = _LOCK_POLL
    with engine.translated(f"cannot lock the schema of {engine.place()}"):
        while not lock.try_acquire():
            now = time.monotonic()
            if now - reminded > _LOCK_REMINDER:
                reminded = now
                logger.info("another process is setting up %s; waiting", engine.place())
            engine.stopped.wait(pause)
            engine.check_stopped()
            pause = min(pause * 1.5, _LOCK_POLL_MAX)
    return time.monotonic() - started


def _upgrade(engine: SchemaEngine, waited: float, progress: Callable[[str], None]) -> SetupReport:
    migrations = load_migrations(engine.name)
    log = MigrationLog(engine)
    with engine.translated(f"cannot set up {engine.place()}"):
        log.check_not_newer(migrations)
        applied = apply_pending(engine, log, migrations, progress=progress)
    return SetupReport(
        applied=applied,
        version=max((migration.id for migration in migrations), default=""),
        waited=waited,
    )


def _end(engine: SchemaEngine, lock: SetupLock) -> None:
    try:
        engine.close()
    finally:
        lock.release()
