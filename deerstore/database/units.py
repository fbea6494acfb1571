"""Units: several queries with Python between them, run as one.

A unit is a generator: it says which query it wants next and does no I/O itself. Whoever runs it
decides how: call by call, or all of it in one trip to the thread of an SQLite connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from deerstore.errors import InvalidValueError
from deerstore.queries import CompiledQuery, Query

__all__ = ["Ask", "Unit", "check_reading", "converse", "run_through"]

T = TypeVar("T")

Rows: TypeAlias = list[tuple[Any, ...]]
Ask: TypeAlias = Callable[[Query, Mapping[str, Any]], Rows]
Unit: TypeAlias = Generator[tuple[Query, Mapping[str, Any]], Rows, T]
"""Yields a query with its parameters, is sent the rows (none, where the query gives none), and
returns the unit's result."""


async def converse(unit: Unit[T], ask: Callable[[Query, Mapping[str, Any]], Awaitable[Rows]]) -> T:
    """Run a unit, one awaited call after the other."""
    _check(unit)
    try:
        query, params = next(unit)
        while True:
            query, params = unit.send(await ask(query, params))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        unit.close()


def run_through(unit: Unit[T], ask: Ask) -> T:
    """The same where nothing has to be awaited."""
    _check(unit)
    try:
        query, params = next(unit)
        while True:
            query, params = unit.send(ask(query, params))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        unit.close()


def _check(unit: object) -> None:
    if not isinstance(unit, Generator):
        raise TypeError(
            f"a unit's work has to make a generator that yields (query, params), not a "
            f"{type(unit).__name__}"
        )


def check_reading(query: CompiledQuery) -> None:
    """Refuse a query that writes, in a unit that said it would not."""
    if query.writes:
        raise InvalidValueError(f"{query.name} writes, and the unit was begun with writes=False")
