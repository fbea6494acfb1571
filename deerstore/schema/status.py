"""What state a database's schema is in, and what an upgrade would do; reads only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from deerstore.schema.ddl import restore
from deerstore.schema.engines import SchemaEngine, schema_engine
from deerstore.schema.log import MigrationLog
from deerstore.schema.migrations import load_migrations
from deerstore.schema.plan import (
    Branch,
    PlannedStatement,
    adoption_statements,
    branch_of,
    pending_statements,
)
from deerstore.schema.reconcile import unresolved
from deerstore.schema.shape import compare, read_shape
from deerstore.schema.thread import SchemaThread

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.config.url import Engine

__all__ = ["Drift", "SchemaStatus", "UpgradePlan", "plan_upgrade", "schema_status"]

T = TypeVar("T")


@dataclass(frozen=True)
class UpgradePlan:
    """What the next ``setup()`` will do.

    ``statements`` in the order in which they run; ``resolved`` one line for each row of another
    writer that will have to give way. ``branch`` is ``missing`` when there is no database yet.
    """

    branch: Branch
    statements: tuple[PlannedStatement, ...]
    resolved: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.statements and not self.resolved


@dataclass(frozen=True)
class Drift:
    """One difference from the expected shape, with the statements that restore it."""

    message: str
    restore: tuple[str, ...]


@dataclass(frozen=True)
class SchemaStatus:
    """The state of a database's schema.

    ``version`` is the newest applied migration; ``pending`` are the ids that have not run,
    ``newer`` those in the log that this release does not know. ``drift`` is looked for when
    nothing is pending.
    """

    engine: Engine
    place: str
    branch: Branch
    version: str | None
    applied: tuple[str, ...]
    pending: tuple[str, ...]
    newer: tuple[str, ...]
    drift: tuple[Drift, ...]
    plan: UpgradePlan

    @property
    def state(self) -> Literal["current", "pending", "drift", "newer"]:
        """One word for all of it."""
        if self.newer:
            return "newer"
        if self.drift:
            return "drift"
        return "current" if self.plan.is_empty else "pending"


async def schema_status(config: StorageConfig) -> SchemaStatus:
    """Look at a database's schema. Writes nothing, and creates nothing that is missing.

    Raises:
        SchemaError: the catalog cannot be read, or a table is neither DeerFlow's nor deerstore's.
        ConnectionLostError: the server cannot be reached.
        MissingExtraError: the engine's packages are not installed.
    """
    return await _reading(config, _status)


async def plan_upgrade(config: StorageConfig) -> UpgradePlan:
    """What ``setup()`` would do to a database, as SQL. Writes nothing.

    Raises :class:`~deerstore.errors.SchemaTooNewError` when a newer release made the database, and
    what :func:`schema_status` raises.
    """
    return await _reading(config, _plan_or_refuse)


async def _reading(config: StorageConfig, look: Callable[[SchemaEngine], T]) -> T:
    engine = schema_engine(config)

    def stop() -> None:
        engine.stopped.set()
        engine.interrupt()

    def work() -> T:
        with engine.translated(f"cannot read the schema of {engine.place()}"):
            return look(engine)

    async with SchemaThread(stop) as thread:
        try:
            return await thread.run(work)
        finally:
            if not thread.hangs:
                await thread.run(engine.close)


def _plan_or_refuse(engine: SchemaEngine) -> UpgradePlan:
    if engine.database_exists():
        MigrationLog(engine).check_not_newer(load_migrations(engine.name))
    return _status(engine).plan


def _status(engine: SchemaEngine) -> SchemaStatus:
    migrations = load_migrations(engine.name)
    known = {migration.id for migration in migrations}
    exists = engine.database_exists()
    applied = MigrationLog(engine).applied() if exists else ()
    shape = read_shape(engine) if exists else {}
    branch = branch_of(applied, shape) if exists else "missing"
    newer = tuple(name for name in applied if name not in known)
    pending = tuple(migration.id for migration in migrations if migration.id not in applied)
    statements: list[PlannedStatement] = []
    resolved: list[str] = []
    drift: list[Drift] = []
    if not newer:
        if pending and branch in ("legacy", "versioned"):
            statements += adoption_statements(engine, migrations, shape)
        statements += pending_statements(migrations, applied)
        if branch == "versioned" and not pending:
            drift = [
                Drift(str(found), restore(engine.name, found, shape, migrations))
                for found in compare(engine.name, shape, migrations)
            ]
        if branch in ("legacy", "versioned") and not drift:
            resolved = unresolved(engine, shape)
    return SchemaStatus(
        engine=engine.name,
        place=engine.place(),
        branch=branch,
        version=max(applied, default=None),
        applied=applied,
        pending=pending,
        newer=newer,
        drift=tuple(drift),
        plan=UpgradePlan(branch, tuple(statements), tuple(resolved)),
    )
