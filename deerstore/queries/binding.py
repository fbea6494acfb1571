"""From a caller's parameters to a driver's arguments, with as little as possible in between.

The types of the values of a call form its *signature*. A signature is checked once, and what has
to be done for it is kept, so that a call whose values already have the right types costs a
dictionary look-up, not a check per value. Values are never kept, and never shown in an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from operator import itemgetter
from typing import Any
from uuid import UUID

from deerstore.errors import InvalidValueError
from deerstore.queries.header import near
from deerstore.queries.model import Codec, CompiledStep, Parameter, ValueType

__all__ = ["Binder", "build_binder"]

Binder = Callable[[Mapping[str, Any]], tuple[Any, ...]]
_Step = tuple[int, Callable[[Any], Any]]

_INT64 = 2**63
# A query has few signatures in practice; a json parameter may bring any class with it.
_MOST_SIGNATURES = 64
_EXACT: dict[str, type] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": bool,
    "timestamp": datetime,
    "bytes": bytes,
}


def build_binder(
    query: str,
    declared: tuple[Parameter, ...],
    params: tuple[Parameter, ...],
    steps: tuple[CompiledStep, ...],
    codec: Codec,
) -> Binder:
    """The ``bind`` of one compiled query.

    ``declared`` are all parameters of the query, ``params`` those that this variant needs; the
    others may be given and are ignored.
    """
    names = tuple(parameter.name for parameter in params)
    count = len(names)
    pick = _picker(names)
    checks = tuple(_Check(query, parameter, codec) for parameter in params)
    signatures: dict[tuple[type, ...], tuple[_Step, ...]] = {}
    assemble = _assembler(query, params, steps, checks)

    def settle(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[_Step, ...]]:
        settled = tuple(check.settle(value) for check, value in zip(checks, values, strict=True))
        work = tuple(
            (index, action)
            for index, (check, value) in enumerate(zip(checks, settled, strict=True))
            if (action := check.action(value)) is not None
        )
        kinds = tuple(map(type, values))
        if kinds == tuple(map(type, settled)) and len(signatures) < _MOST_SIGNATURES:
            signatures[kinds] = work
        return settled, work

    def bind(given: Mapping[str, Any]) -> tuple[Any, ...]:
        if len(given) != count:
            _refuse(query, declared, names, given)
        try:
            values = pick(given)
        except KeyError:
            _refuse(query, declared, names, given)
            raise
        work = signatures.get(tuple(map(type, values)))
        if work is None:
            values, work = settle(values)
        if assemble is not None:
            return assemble(values, work)
        if work:
            encoded = list(values)
            for index, action in work:
                encoded[index] = action(encoded[index])
            return (tuple(encoded),)
        return (values,)

    return bind


def _refuse(
    query: str, declared: tuple[Parameter, ...], needed: tuple[str, ...], given: Mapping[str, Any]
) -> None:
    """Raise when a needed parameter is missing or one is given that the query does not have."""
    allowed = {parameter.name for parameter in declared}
    unknown = [name for name in given if name not in allowed]
    missing = [name for name in needed if name not in given]
    if unknown:
        found = near(unknown[0], missing or sorted(allowed))
        hint = f"; did you mean {found!r}?" if found else ""
        raise InvalidValueError(
            f"{query}: unknown parameter {unknown[0]!r}{hint}", field=unknown[0]
        )
    if missing:
        shown = ", ".join(repr(name) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise InvalidValueError(f"{query}: missing parameter{plural} {shown}", field=missing[0])


def _nothing(_: Any) -> tuple[Any, ...]:
    return ()


def _picker(keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    if not keys:
        return _nothing
    if len(keys) == 1:
        key = keys[0]
        return lambda source: (source[key],)
    return itemgetter(*keys)


def _assembler(
    query: str,
    params: tuple[Parameter, ...],
    steps: tuple[CompiledStep, ...],
    checks: tuple[_Check, ...],
) -> Callable[[tuple[Any, ...], tuple[_Step, ...]], tuple[Any, ...]] | None:
    """How encoded values become the steps' arguments; None when they are them already."""
    names = tuple(parameter.name for parameter in params)
    if len(steps) == 1 and not steps[0].each and steps[0].order == names:
        return None
    # A carried value is not known yet: it takes the None behind the last value.
    where = {name: index for index, name in enumerate(names)}
    positions = [tuple(where.get(name, len(names)) for name in step.order) for step in steps]
    lists = {index for index, parameter in enumerate(params) if parameter.type.is_list}
    plans = [
        (step.each, _picker(places), places) for step, places in zip(steps, positions, strict=True)
    ]
    elementwise = {i for each, _, places in plans if each for i in places if i in lists}
    # What no step wants as a whole is not encoded as a whole.
    needed = {i for each, _, places in plans if not each for i in places}
    parts_only = elementwise - needed

    def rows(columns: dict[int, list[Any]], encoded: list[Any], places: tuple[int, ...]) -> Any:
        lengths = {len(columns[place]) for place in places if place in columns}
        if len(lengths) > 1:
            raise InvalidValueError(
                f"{query}: the lists of an ':each' step differ in length",
                field=next(params[place].name for place in places if place in columns),
            )
        return list(
            zip(
                *(
                    columns[place] if place in columns else repeat(encoded[place])
                    for place in places
                ),
                strict=False,
            )
        )

    def assemble(values: tuple[Any, ...], work: tuple[_Step, ...]) -> tuple[Any, ...]:
        columns = {index: checks[index].elements(values[index]) for index in elementwise}
        encoded = list(values)
        for index, action in work:
            if index not in parts_only:
                encoded[index] = action(encoded[index])
        encoded.append(None)
        return tuple(
            rows(columns, encoded, places) if each else take(encoded)
            for each, take, places in plans
        )

    return assemble


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


class _Check:
    """The rules of one parameter: what is accepted, and how it is encoded."""

    __slots__ = ("accepted", "base", "encode", "encode_list", "name", "query", "type")

    def __init__(self, query: str, parameter: Parameter, codec: Codec) -> None:
        self.query = query
        self.name = parameter.name
        self.type: ValueType = parameter.type
        self.base = parameter.type.base
        self.encode = codec.encoders.get(self.base)
        self.encode_list = codec.encoders.get(f"{self.base}[]")
        self.accepted: set[type] = set()
        """Types of elements that need no second look."""
        if self.base in _EXACT:
            self.accepted = {_EXACT[self.base]}
            if parameter.type.element_nullable:
                self.accepted.add(type(None))

    def settle(self, value: Any) -> Any:
        """``value`` as a value of the exact type, or an error."""
        if value is None:
            if self.type.nullable or (self.base == "json" and not self.type.is_list):
                return None
            raise self.wrong(value)
        if not self.type.is_list:
            return self.scalar(value)
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(
            value, Collection
        ):
            raise self.wrong(value)
        return value if type(value) is list else list(value)

    def scalar(self, value: Any) -> Any:
        try:
            return _COERCE[self.base](value)
        except TypeError:
            raise self.wrong(value) from None
        except OverflowError:
            raise self.refused("is too large for a float") from None

    def action(self, value: Any) -> Callable[[Any], Any] | None:
        """What is to be done with every value of this value's type."""
        if value is None:
            # A json parameter that may not be NULL stores the JSON null.
            return None if self.type.nullable else self.encode
        if self.type.is_list:
            return self.whole_list
        within_rules: dict[str, Callable[[Any], Any]] = {
            "text": self.take_text,
            "int": self.take_int,
            "float": self.take_float,
            "timestamp": self.take_timestamp,
        }
        return within_rules.get(self.base, self.encode)

    def take_text(self, value: str) -> Any:
        if "\x00" in value or not value.isascii():
            self.storable(value)
        return value if self.encode is None else self.encode(value)

    def take_int(self, value: int) -> Any:
        if not -_INT64 <= value < _INT64:
            raise self.refused("does not fit in 64 bits")
        return value if self.encode is None else self.encode(value)

    def take_float(self, value: float) -> Any:
        # SQLite would store NULL, MySQL would refuse.
        if not math.isfinite(value):
            raise self.refused("is NaN or infinite")
        return value if self.encode is None else self.encode(value)

    def take_timestamp(self, value: datetime) -> Any:
        if value.tzinfo is not UTC:
            value = self.in_utc(value)
        return value if self.encode is None else self.encode(value)

    def in_utc(self, value: datetime) -> datetime:
        """The instant of an aware time, whatever its offset; a naive time means UTC."""
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        try:
            return value.astimezone(UTC)
        except (OverflowError, ValueError):
            raise self.refused("is outside the years 1 to 9999 in UTC") from None

    def storable(self, value: str) -> None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.refused("contains a lone surrogate, which cannot be stored") from None
        if "\x00" in value:
            raise self.refused("contains U+0000, which cannot be stored")

    def whole_list(self, value: list[Any]) -> Any:
        if self.encode_list is not None:
            return self.encode_list(self.checked(value))
        return self.elements(value)

    def checked(self, value: list[Any] | None) -> list[Any]:
        """The elements, each of the exact type and within its rules, not encoded."""
        if value is None:
            return []
        if not self.accepted.issuperset(map(type, value)):
            value = [self.element(item) for item in value]
        if self.base == "text":
            self.storable_all(value)
        elif self.base == "int":
            if any(item is not None and not -_INT64 <= item < _INT64 for item in value):
                raise self.refused("has an element that does not fit in 64 bits")
        elif self.base == "timestamp":
            return [
                item if item is None or item.tzinfo is UTC else self.in_utc(item) for item in value
            ]
        elif self.base == "float" and any(
            item is not None and not math.isfinite(item) for item in value
        ):
            raise self.refused("has an element that is NaN or infinite")
        return value

    def storable_all(self, value: list[Any]) -> None:
        try:
            text = "".join(value)
        except TypeError:
            text = "".join(item for item in value if item is not None)
        # All at once: one look at a long text is quicker than many at short ones.
        if "\x00" in text or not text.isascii():
            self.storable(text)

    def element(self, value: Any) -> Any:
        if value is None:
            if self.type.element_nullable or self.base == "json":
                return None
            raise self.refused("has an element that is None")
        return self.scalar(value)

    def elements(self, value: list[Any] | None) -> list[Any]:
        """The elements, checked and encoded one by one."""
        encode = self.encode
        items = self.checked(value)
        if encode is None:
            return items
        null_too = self.base == "json" and not self.type.element_nullable
        if self.base == "timestamp" and len(items) > 1 and items.count(items[0]) == len(items):
            # The events of a batch happen at one moment.
            return items if items[0] is None else [encode(items[0])] * len(items)
        return [item if item is None and not null_too else encode(item) for item in items]

    def wrong(self, value: Any) -> InvalidValueError:
        return self.refused(f"must be {self.type}, not {type(value).__name__}")

    def refused(self, why: str) -> InvalidValueError:
        return InvalidValueError(f"{self.query}: parameter {self.name!r} {why}", field=self.name)
