"""``setup()``: every table made and brought up to date, by one process at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerstore.errors import SchemaDriftError
from deerstore.schema.engines import SchemaEngine, schema_engine
from deerstore.schema.log import MigrationLog
from deerstore.schema.migrations import Migration, load_migrations
from deerstore.schema.plan import Branch, adoption_statements, branch_of
from deerstore.schema.reconcile import reconcile_rows
from deerstore.schema.runner import Progress, apply_migrations, apply_statements
from deerstore.schema.shape import compare, read_shape
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
    """What one call of :func:`setup_schema` found and did.

    ``branch`` is what the database was before: ``empty``, ``legacy`` (DeerFlow's) or
    ``versioned``. ``adopted`` are the statements that completed tables that were there, ``applied``
    the ids of the migrations that ran, ``resolved`` one line for each row of another writer that
    had to give way. ``version`` is the newest migration of the database afterwards, ``waited`` the
    seconds spent waiting for other processes.
    """

    branch: Branch
    adopted: tuple[str, ...]
    applied: tuple[str, ...]
    resolved: tuple[str, ...]
    version: str
    waited: float


async def setup_schema(
    config: StorageConfig,
    *,
    langgraph_setup: Callable[[], Awaitable[None]] | None = None,
    progress: Progress = lambda _: None,
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
        SchemaDriftError: a table, a column or a trigger is missing although the log says that it
            was made; the message says how to restore it.
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
            if not thread.hangs:
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
            if not thread.hangs:
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


def _upgrade(engine: SchemaEngine, waited: float, progress: Progress) -> SetupReport:
    migrations = load_migrations(engine.name)
    log = MigrationLog(engine)
    with engine.translated(f"cannot set up {engine.place()}"):
        applied = log.check_not_newer(migrations)
        shape = read_shape(engine)
        branch = branch_of(applied, shape)
        adopted: list[str] = []
        done: list[Migration] = []
        if len(applied) < len(migrations):
            if branch != "empty":
                # A foreign table is refused before anything is written.
                list(adoption_statements(engine, migrations, shape))
            log.create()
            with log.yoyo_lock():
                # A yoyo that held its lock until now may have done some of the work.
                applied = log.applied()
                if branch != "empty":
                    adopted = _adopt(engine, migrations, progress)
                done = [migration for migration in migrations if migration.id not in applied]
                apply_migrations(engine, log, done, progress)
        elif "yoyo_lock" in shape:
            log.forget_dead_setup()
        _check(engine, migrations)
        resolved = reconcile_rows(engine)
    return SetupReport(
        branch=branch,
        adopted=tuple(adopted),
        applied=tuple(migration.id for migration in done),
        resolved=tuple(resolved),
        version=max((migration.id for migration in migrations), default=""),
        waited=waited,
    )


def _adopt(engine: SchemaEngine, migrations: Sequence[Migration], progress: Progress) -> list[str]:
    statements = list(adoption_statements(engine, migrations, read_shape(engine)))
    apply_statements(engine, statements, progress)
    return [statement.sql for statement in statements]


def _check(engine: SchemaEngine, migrations: Sequence[Migration]) -> None:
    """Refuse a database that queries would fail on, and report what is merely different."""
    shape = read_shape(engine)
    differences = compare(engine.name, shape, migrations)
    fatal = [difference for difference in differences if difference.fatal]
    if fatal:
        raise SchemaDriftError(
            f"the schema of {engine.place()} is not the one that its migration log says: "
            f"{'; '.join(map(str, fatal))}. `deerstore schema status` prints the statements that "
            "restore it."
        )
    for difference in differences:
        logger.warning("schema drift: %s (see: deerstore schema status)", difference)


def _end(engine: SchemaEngine, lock: SetupLock) -> None:
    try:
        engine.close()
    finally:
        lock.release()
