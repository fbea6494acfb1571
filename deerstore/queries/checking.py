"""The rules of one parameter's values: what is accepted, and as what.

The function that binds a query passes what is ordinary by itself, and asks here about the rest:
another type, text beyond ASCII, a time of another zone. What is accepted here is handed back as
the exact type and within the type's rules, not encoded; anything else is an error that names the
query and the parameter, and never shows the value.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from operator import countOf
from typing import Any
from uuid import UUID

from deerstore.errors import InvalidValueError
from deerstore.queries.model import Parameter, ValueType

__all__ = ["INT64", "Check", "all_one"]

INT64 = 2**63
_EXACT: dict[str, type] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": bool,
    "timestamp": datetime,
    "bytes": bytes,
}


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        # A string enum would reach the driver as itself.
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError


def _as_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise TypeError


def _as_float(value: Any) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(value)
    raise TypeError


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError


def _as_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    raise TypeError


def _as_json(value: Any) -> Any:
    return value


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError


_COERCE: dict[str, Callable[[Any], Any]] = {
    "text": _as_text,
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "timestamp": _as_timestamp,
    "json": _as_json,
    "bytes": _as_bytes,
}


def all_one(values: list[Any]) -> bool:
    """Whether all elements are equal, of a list that is not empty.

    Most lists of a batch are (its thread, its run, its moment), and most that are not differ at
    the ends.
    """
    first = values[0]
    return first is values[-1] and values.count(first) == len(values)


class Check:
    """The rules of one parameter."""

    __slots__ = ("_accepted", "_base", "_coerce", "_exact", "_name", "_query", "_rules", "_type")

    def __init__(self, query: str, parameter: Parameter) -> None:
        self._query = query
        self._name = parameter.name
        self._type: ValueType = parameter.type
        self._base = parameter.type.base
        self._coerce = _COERCE[self._base]
        self._exact = _EXACT.get(self._base)
        self._accepted: set[type | None] = {self._exact}
        if parameter.type.element_nullable:
            self._accepted.add(type(None))
        rules: dict[str, Callable[[list[Any]], list[Any]]] = {
            "text": self._texts,
            "int": self._ints,
            "float": self._floats,
            "timestamp": self._timestamps,
        }
        self._rules = rules.get(self._base)

    # -- one value -------------------------------------------------------------------------------

    def scalar(self, value: Any) -> Any:
        """The value of a parameter that is no list. None was allowed before, or is refused."""
        value = self._exactly(value)
        if self._base == "text":
            self._storable(value)
        elif self._base == "int" and not -INT64 <= value < INT64:
            raise self._refused("does not fit in 64 bits")
        elif self._base == "float" and not math.isfinite(value):
            # SQLite would store NULL, MySQL would refuse.
            raise self._refused("is NaN or infinite")
        elif self._base == "timestamp":
            return self._in_utc(value)
        return value

    def _exactly(self, value: Any) -> Any:
        try:
            return self._coerce(value)
        except TypeError:
            raise self._wrong(value) from None
        except OverflowError:
            raise self._refused("is too large for a float") from None

    def _in_utc(self, value: datetime) -> datetime:
        """The instant of an aware time, whatever its offset; a naive time means UTC."""
        if value.tzinfo is UTC:
            return value
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        try:
            return value.astimezone(UTC)
        except (OverflowError, ValueError):
            raise self._refused("is outside the years 1 to 9999 in UTC") from None

    def _storable(self, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._refused("contains a lone surrogate, which cannot be stored") from None
        if "\x00" in value:
            raise self._refused("contains U+0000, which cannot be stored")

    # -- a list ----------------------------------------------------------------------------------

    def elements(self, given: Any) -> list[Any]:
        """The elements of a list."""
        value: list[Any] = given if type(given) is list else self._as_list(given)
        if countOf(map(type, value), self._exact) != len(value):
            if not self._accepted.issuperset(map(type, value)):
                value = [self._element(item) for item in value]
            if self._rules is not None and None in value:
                return self._some(value, self._rules)
        return self._rules(value) if value and self._rules is not None else value

    def _as_list(self, value: Any) -> list[Any]:
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(
            value, Collection
        ):
            raise self._wrong(value)
        return list(value)

    def _element(self, value: Any) -> Any:
        if value is None:
            if self._type.element_nullable or self._base == "json":
                return None
            raise self._refused("has an element that is None")
        return self._exactly(value)

    def _some(self, value: list[Any], rules: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """The same elements by the rules for those that are not None."""
        present = [item for item in value if item is not None]
        if present:
            kept = iter(rules(present))
            return [None if item is None else next(kept) for item in value]
        return value

    def _texts(self, value: list[str]) -> list[str]:
        # All at once: one look at a long text is quicker than many at short ones.
        text = value[0] if all_one(value) else "".join(value)
        if "\x00" in text or not text.isascii():
            self._storable(text)
        return value

    def _ints(self, value: list[int]) -> list[int]:
        try:
            # Its numbers have 64 bits.
            array("q", value)
        except OverflowError:
            raise self._refused("has an element that does not fit in 64 bits") from None
        return value

    def _floats(self, value: list[float]) -> list[float]:
        # What is not finite never leaves a sum again; a sum may also be too large by itself.
        if not math.isfinite(sum(value)) and not all(map(math.isfinite, value)):
            raise self._refused("has an element that is NaN or infinite")
        return value

    def _timestamps(self, value: list[datetime]) -> list[datetime]:
        if all_one(value):
            # Equal times may still be of different zones.
            return [self._in_utc(value[0])] * len(value)
        return [item if item.tzinfo is UTC else self._in_utc(item) for item in value]

    # -- errors ----------------------------------------------------------------------------------

    def _wrong(self, value: Any) -> InvalidValueError:
        return self._refused(f"must be {self._type}, not {type(value).__name__}")

    def _refused(self, why: str) -> InvalidValueError:
        return InvalidValueError(f"{self._query}: parameter {self._name!r} {why}", field=self._name)
