"""Units: several queries with Python between them, run as one.

A unit is a generator: it says which query it wants next and does no I/O itself. Whoever runs it
decides how: call by call, or all of it in one trip to the thread of an SQLite connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from deerstore.queries import Query

__all__ = ["Ask", "Unit", "converse", "run_through"]

T = TypeVar("T")

Rows: TypeAlias = list[tuple[Any, ...]]
Ask: TypeAlias = Callable[[Query, Mapping[str, Any]], Rows]
Unit: TypeAlias = Generator[tuple[Query, Mapping[str, Any]], Rows, T]
"""Yields a query with its parameters, is sent the rows (none, where the query gives none), and
returns the unit's result."""


async def converse(unit: Unit[T], ask: Callable[[Query, Mapping[str, Any]], Awaitable[Rows]]) -> T:
    """Run a unit, one awaited call after the other."""
    try:
        wanted = next(unit)
        while True:
            wanted = unit.send(await ask(*wanted))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        unit.close()


def run_through(unit: Unit[T], ask: Ask) -> T:
    """The same where nothing has to be awaited."""
    try:
        wanted = next(unit)
        while True:
            wanted = unit.send(ask(*wanted))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        unit.close()
