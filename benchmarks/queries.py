"""One line per operation and engine: the floor, deerstore, and the peers."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic import BaseModel

from benchmarks.peers.aiosql_files import Aiosql
from benchmarks.peers.core import Core
from benchmarks.peers.engine import engine_for
from benchmarks.peers.orm import Orm, OrmBulk, OrmKeyed
from benchmarks.places import Place
from deerstore.database import Database
from deerstore.workbench.bench import OPERATIONS, Line, Operation, open_floor, repositories
from deerstore.workbench.bench.run import measure_operation, prepare_database

__all__ = ["measure_queries"]

Call = Callable[[Any], Awaitable[Any]]
PASSES = 3


async def measure_queries(
    place: Place,
    *,
    rounds: int,
    only: Sequence[str],
    report: Callable[[str, Line], None],
    seeded: bool = False,
) -> None:
    """Measure every operation on one database, and hand each line to ``report``."""
    if not seeded:
        await prepare_database(place.config)
    async with AsyncExitStack() as stack:
        floor = await open_floor(place.config)
        stack.push_async_callback(floor.close)
        database = await stack.enter_async_context(Database(place.config))
        engine = engine_for(place.config)
        stack.push_async_callback(engine.dispose)
        peers: list[Any] = [Orm(engine), OrmBulk(engine), Core(engine)]
        if place.kind == "sqlite":
            peers.append(OrmKeyed(engine))
        if place.kind in ("sqlite", "postgres"):
            peers.append(await stack.enter_async_context(Aiosql.open(place.config)))
        lines: dict[str, Line] = {}
        # In several passes: on a shared machine a neighbour can sit on one competitor's processor
        # for as long as an operation is measured.
        for turn in range(PASSES):
            for operation in OPERATIONS:
                if only and not any(part in operation.name for part in only):
                    continue
                able = [
                    (peer.name, peer.operations[operation.name])
                    for peer in peers
                    if operation.name in peer.operations
                ]
                if turn == 0:
                    await _compare(operation, database, able)
                line = await measure_operation(
                    operation, database, floor, rounds=-(-rounds // PASSES), peers=able
                )
                if turn > 0:
                    for own, more in zip(lines[operation.name].series, line.series, strict=True):
                        own.blocks += more.blocks
                lines.setdefault(operation.name, line)
        for line in lines.values():
            report(place.kind, line)


async def _compare(
    operation: Operation, database: Database, peers: Sequence[tuple[str, Call]]
) -> None:
    """Nothing is timed before every peer has given what deerstore gives."""
    if not peers:
        return
    to = repositories(database)

    async def outcome(call: Call) -> Any:
        key = f"same-{uuid.uuid4().hex[:12]}"
        if operation.prepare is not None:
            await operation.prepare(to, key)
        result = await call(operation.given(key))
        if operation.name.startswith("runs.update") and isinstance(result, bool):
            result = [result, await to.runs.get_run(key)]
        return _plain(result)

    expected = await outcome(lambda one: operation.call(to, one))
    for name, call in peers:
        found = await outcome(call)
        if found != expected:
            raise AssertionError(f"{operation.name}: {name} gives {found}, not {expected}")


_OWN = frozenset({"run_id", "seq", "created_at", "updated_time", "created_time", "feedback_id"})


def _plain(value: Any) -> Any:
    """A result without what differs from call to call: times, and the keys of new rows."""
    if isinstance(value, BaseModel):
        return {
            name: _plain(item)
            for name, item in value
            if name not in _OWN and not str(item).startswith(("t-same", "same"))
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
