"""Measuring one database: a line per operation, deerstore against its floor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from deerstore.database import Database
from deerstore.errors import ConfigError
from deerstore.workbench.bench.floor import Floor, open_floor, record
from deerstore.workbench.bench.measure import (
    Contestant,
    Interval,
    Series,
    inputs_needed,
    interleave,
    median_interval,
    ratio_interval,
)
from deerstore.workbench.bench.operations import OPERATIONS, Operation, repositories
from deerstore.workbench.bench.seed import seed

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["Line", "bench", "competitors", "measure_operation", "prepare_database"]

_WARM = 3


@dataclass(frozen=True)
class Line:
    """What was measured of one operation. Times are medians in nanoseconds."""

    operation: str
    kind: str
    series: Sequence[Series]
    """The raw times of each competitor; the floor comes first, deerstore second."""

    def time(self, name: str) -> Interval:
        """The time of a competitor."""
        return median_interval(self._named(name).medians)

    def ratio(self, name: str, base: str = "floor") -> Interval:
        """How many times ``base`` it took."""
        return ratio_interval(self._named(name), self._named(base))

    @property
    def names(self) -> list[str]:
        """The competitors."""
        return [each.name for each in self.series]

    def _named(self, name: str) -> Series:
        return next(each for each in self.series if each.name == name)


async def bench(
    config: StorageConfig,
    *,
    rounds: int = 40,
    only: Sequence[str] = (),
) -> AsyncIterator[Line]:
    """Measure the operations whose name contains one of ``only`` (all, without any).

    The database is filled with the benchmark's own rows, which stay: use one that was made for it.

    Raises:
        ConfigError: the database holds somebody's rows.
    """
    await prepare_database(config)
    floor = await open_floor(config)
    try:
        async with Database(config) as database:
            for operation in OPERATIONS:
                if not only or any(part in operation.name for part in only):
                    yield await measure_operation(operation, database, floor, rounds=rounds)
    finally:
        await floor.close()


async def prepare_database(config: StorageConfig) -> None:
    """Make the tables and the rows that the operations meet."""
    from deerstore.persistence import create_persistence_from_storage_config

    persistence = await create_persistence_from_storage_config(config)
    try:
        await persistence.setup()
        to = repositories(persistence.database)
        if await to.users.count_users() or await to.runs.count_runs():
            raise ConfigError(f"{config.location} has users or runs: give me an empty database")
        await seed(to)
    finally:
        await persistence.aclose()


async def measure_operation(
    operation: Operation,
    database: Database,
    floor: Floor,
    *,
    rounds: int,
    peers: Sequence[tuple[str, Callable[[Any], Awaitable[Any]]]] = (),
) -> Line:
    """One line: the floor, deerstore, and ``peers`` by name, each called with its own keys."""
    needed = inputs_needed(rounds=rounds, calls=operation.calls, warm=_WARM)
    contestants = await competitors(operation, database, floor, needed)
    for name, call in peers:
        given = await _inputs(operation, database, name, needed)
        contestants.append(_contestant(name, call, given))
    series = await interleave(contestants, rounds=rounds, calls=operation.calls, warm=_WARM)
    return Line(operation.name, operation.kind, sorted(series, key=_order))


def _order(series: Series) -> int:
    return ("floor", "deerstore").index(series.name) if series.name in _FIRST else len(_FIRST)


_FIRST = ("floor", "deerstore")


async def competitors(
    operation: Operation, database: Database, floor: Floor, needed: int
) -> list[Contestant]:
    """The floor and deerstore, with ``needed`` inputs each, after a comparison of what they give.

    Raises:
        AssertionError: they give different rows.
    """
    to = repositories(database)
    own = await _inputs(operation, database, "deerstore", needed)
    recorded = [
        await record(database, lambda session, one=one: operation.call(repositories(session), one))  # type: ignore[misc]
        for one in await _inputs(operation, database, "floor", needed)
    ]
    calls = [each[0] for each in recorded]
    if not operation.writes:
        compare(operation.name, recorded[0][1], await floor.play(calls[0]))
    encode = database._connections.engine.codec.encoders["json"]  # noqa: SLF001
    assert encode is not None
    payload = operation.payload

    async def play(number: int) -> object:
        # Kept until they are sent, as whoever sends them has to.
        texts = [encode(value) for value in payload]
        rows = await floor.play(calls[number])
        del texts
        return rows

    return [
        Contestant("floor", play),
        _contestant("deerstore", lambda one: operation.call(to, one), own),
    ]


def _contestant(
    name: str, call: Callable[[Any], Awaitable[object]], given: Sequence[Any]
) -> Contestant:
    return Contestant(name, lambda number: call(given[number]))


_runs_of = 0


async def _inputs(operation: Operation, database: Database, name: str, needed: int) -> list[Any]:
    global _runs_of  # noqa: PLW0603 - keys are never used twice in one process
    _runs_of += 1
    keys = [f"{name}-{_runs_of}-{number}" for number in range(needed)]
    if operation.prepare is not None:
        to = repositories(database)
        for key in keys:
            await operation.prepare(to, key)
    return [operation.given(key) for key in keys]


def compare(name: str, result: object, rows: Sequence[Sequence[Any]]) -> None:
    """Hold what deerstore gave against the floor's rows: the same values, in the same order."""
    by_key = isinstance(result, dict)
    models: list[Any] = list(result.values()) if isinstance(result, dict) else [result]
    if isinstance(result, list):
        models = result
    if not models or not all(isinstance(model, BaseModel) for model in models):
        return
    given = [_comparable(model.model_dump().values()) for model in models]
    found = [_comparable(row) for row in rows]
    if by_key:
        given, found = sorted(given), sorted(found)
    if given not in (found, found[::-1]):
        raise AssertionError(f"{name}: deerstore and the floor give different rows")


def _comparable(values: Any) -> list[Any]:
    return sorted(
        value.isoformat() if isinstance(value, datetime) else repr(value) for value in values
    )
