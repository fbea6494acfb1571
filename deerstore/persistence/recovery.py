"""What a restart brings back, answered from the live database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deerstore.database.catalog import deerstore_queries
from deerstore.errors import QueryExecutionError

if TYPE_CHECKING:
    from deerstore.database import Database

__all__ = ["RecoveryReport", "SurfaceReport", "recovery_report"]


@dataclass(frozen=True, slots=True)
class SurfaceReport:
    """One surface.

    ``rows`` is ``None`` when its table does not exist yet (``setup()`` has not run).
    """

    name: str
    table: str
    durable: bool
    where: str
    rows: int | None
    brings_back: str
    cannot_bring_back: str


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """All surfaces of a bundle.

    ``durable`` says that every surface lies in the same database: there is no way to configure one
    of them in memory. ``schema_version`` is the newest migration that was applied, ``None`` before
    the first ``setup()``.
    """

    driver: str
    where: str
    durable: bool
    schema_version: str | None
    surfaces: tuple[SurfaceReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return asdict(self)

    def surface(self, name: str) -> SurfaceReport:
        """One surface by its name."""
        return next(surface for surface in self.surfaces if surface.name == name)


_TASK = "a task that was running: its process is gone, and nothing resumes it by itself"

_SURFACES: Mapping[str, tuple[str, str, str, str]] = {
    "checkpointer": (
        "checkpoints",
        "checkpoints.count_checkpoints",
        "graph state per thread: the next turn continues, an interrupt can be resumed",
        "work since the last checkpoint, and " + _TASK,
    ),
    "store": (
        "store",
        "store.count_items",
        "every item that was written",
        "an operation whose call had not returned",
    ),
    "runs": (
        "runs",
        "recovery.count_runs",
        "every run with its status and figures; one that was in flight is reconciled to error",
        _TASK,
    ),
    "run_events": (
        "run_events",
        "recovery.count_run_events",
        "every event that was appended, in order",
        "events still buffered in the process, and an open stream: its reader reconnects",
    ),
    "threads_meta": (
        "threads_meta",
        "recovery.count_threads_meta",
        "titles, owners, states and metadata of all threads",
        "a change whose call had not returned",
    ),
    "feedback": (
        "feedback",
        "recovery.count_feedback",
        "every rating",
        "a rating whose call had not returned",
    ),
    "users": (
        "users",
        "recovery.count_users",
        "every account",
        "a session or a context of a request",
    ),
}


async def recovery_report(database: Database) -> RecoveryReport:
    """Ask the database what is there.

    Raises:
        ConnectionLostError: the database cannot be reached.
    """
    from deerstore.schema import schema_status

    where = database.config.location
    surfaces = [
        SurfaceReport(
            name=name,
            table=table,
            durable=True,
            where=f"{where}, table {table}",
            rows=await _count(database, query),
            brings_back=brings_back,
            cannot_bring_back=cannot,
        )
        for name, (table, query, brings_back, cannot) in _SURFACES.items()
    ]
    return RecoveryReport(
        driver=database.engine,
        where=where,
        durable=all(surface.durable for surface in surfaces),
        schema_version=(await schema_status(database.config)).version,
        surfaces=tuple(surfaces),
    )


async def _count(database: Database, query: str) -> int | None:
    try:
        return int(await database.fetch_value(deerstore_queries()[query]))
    except QueryExecutionError as error:
        if _is_missing_table(error):
            return None
        raise


def _is_missing_table(error: QueryExecutionError) -> bool:
    # PostgreSQL's SQLSTATE, MySQL's number; SQLite has no code of its own for it.
    return (
        error.sqlstate == "42P01"
        or error.engine_code == 1146
        or "no such table" in str(error.__cause__)
    )
