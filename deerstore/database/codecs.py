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

from deerstore.values import decode_json, encode_exact_json

__all__ = [
    "array_of",
    "encode_json",
    "stored_bool",
    "stored_bytes",
    "stored_float",
    "stored_int",
    "stored_json",
    "stored_text",
    "stored_timestamp",
    "timestamp_text",
    "whole_number",
]

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
    if type(value) is str:
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return None
    elif isinstance(value, datetime):
        time = value
    elif isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    else:
        return None
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return None


def stored_bool(value: Any) -> bool:
    """A stored truth value; text counts by its meaning."""
    if type(value) is str:
        return value.strip().lower() not in ("", "0", "f", "false", "n", "no", "off")
    if isinstance(value, bytes):
        return any(value)
    return bool(value)


def stored_int(value: Any) -> Any:
    """A stored whole number as ``int``, whatever numeric type the engine made of it."""
    if type(value) is int:
        return value
    try:
        number = int(value)
        return number if number == value or isinstance(value, str) else value
    except (ValueError, TypeError, OverflowError):
        return value


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


def stored_text(value: Any) -> str:
    """A stored text, whatever type the engine made of it."""
    if type(value) is str:
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def whole_number(value: Decimal) -> int | Decimal:
    """A sum of whole numbers as ``int``; other decimals stay exact."""
    return int(value) if value.is_finite() and value == value.to_integral_value() else value
