"""Values between Python and the drivers: the rules that more than one engine needs.

What arrives here on the way in is checked already; on the way out nothing that lies in a table
may raise, whoever wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from deerstore.json_text import decode_json, encode_exact_json

__all__ = [
    "array_of",
    "decimal",
    "encode_json",
    "stored_bool",
    "stored_bytes",
    "stored_float",
    "stored_json",
    "stored_timestamp",
    "timestamp_text",
]

_parse = datetime.fromisoformat
_array = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


# -- in ------------------------------------------------------------------------------------------


def timestamp_text(value: datetime) -> str:
    """An aware UTC time as ``YYYY-MM-DD HH:MM:SS.ffffff``: text order is time order."""
    return value.isoformat(" ", "microseconds")[:26]


def encode_json(value: Any) -> str:
    """JSON text of a value."""
    return encode_exact_json("json", value, allow_nan=False)


def array_of(encode: Callable[[Any], Any] | None = None) -> Callable[[Iterable[Any]], str]:
    """An encoder of lists as one JSON array, for engines without arrays."""
    if encode is None:
        return lambda values: _array(list(values))
    return lambda values: _array([None if value is None else encode(value) for value in values])


# -- out -----------------------------------------------------------------------------------------


def stored_timestamp(value: Any) -> datetime | None:
    """A stored time, aware, in UTC; text without an offset means UTC. None for what is no time."""
    try:
        if type(value) is str:
            # By far the quickest way, for text that has no offset of its own.
            return _parse(value + "Z")
        if value.tzinfo is UTC:
            return value  # type: ignore[no-any-return]
    except (ValueError, AttributeError):
        pass
    return _unusual_time(value)


def _unusual_time(value: Any) -> datetime | None:
    try:
        if isinstance(value, str):
            value = _parse(value)
        elif isinstance(value, int | float):
            value = datetime.fromtimestamp(value, UTC)
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def stored_bool(value: Any) -> bool:
    """A stored truth value; text counts by its meaning."""
    if type(value) is str:
        return value.strip().lower() not in ("", "0", "f", "false", "n", "no", "off")
    if isinstance(value, bytes):
        return any(value)
    return bool(value)


def stored_float(value: Any) -> Any:
    """A stored number as ``float``."""
    try:
        return float(value)
    except (ValueError, TypeError):
        return value


def stored_json(value: Any) -> Any:
    """Stored JSON text, decoded; text that is not JSON stays as it is."""
    if isinstance(value, str | bytes):
        try:
            return decode_json(value)
        except (ValueError, RecursionError):
            return value
    return value


def stored_bytes(value: Any) -> bytes:
    """A stored byte string; text gives its UTF-8 bytes."""
    if type(value) is bytes:
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def decimal(text: str) -> int | Decimal:
    """An exact number as the server writes it.

    Without a fraction (the sum of whole numbers) it is an ``int``, else a ``Decimal``.
    """
    try:
        return int(text)
    except ValueError:
        return Decimal(text)
