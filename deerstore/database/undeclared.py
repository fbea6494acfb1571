"""Rows of queries that do not declare their columns: typed by what the engine knows of them.

A column of times gives aware times in UTC, one of truth values gives ``bool``, on every engine.
What does not fit its column's type stays as it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from deerstore.database.codecs import stored_timestamp

__all__ = ["Kinds", "aware", "typed_rows"]

Kinds = tuple[str | None, ...]
"""``timestamp``, ``date`` or ``bool`` for each column whose values the driver gives otherwise."""


def aware(value: datetime) -> datetime:
    """A time of the driver's, in UTC; a naive one means UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _timestamp(value: Any) -> Any:
    if type(value) is datetime:
        return aware(value)
    # Nobody knows what a number counts here.
    return value if type(value) is not str else stored_timestamp(value) or value


def _date(value: Any) -> Any:
    try:
        return date.fromisoformat(value) if type(value) is str else value
    except ValueError:
        return value


def _bool(value: Any) -> Any:
    return bool(value) if type(value) is int and value in (0, 1) else value


_DECODERS: dict[str, Callable[[Any], Any]] = {"timestamp": _timestamp, "date": _date, "bool": _bool}


def typed_rows(rows: Sequence[Sequence[Any]], kinds: Kinds) -> list[tuple[Any, ...]]:
    """A driver's rows as tuples of typed values."""
    work = [(index, _DECODERS[kind]) for index, kind in enumerate(kinds) if kind is not None]
    if not work:
        return [tuple(row) for row in rows]
    typed = []
    for row in rows:
        values = list(row)
        for index, decode in work:
            values[index] = decode(values[index])
        typed.append(tuple(values))
    return typed
