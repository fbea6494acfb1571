"""Any graph state as strict JSON data, for REST answers and server-sent events alike.

What a value becomes:

==========================================  ====================================================
``None``, ``bool``, ``int``, ``str``        themselves; a lone surrogate becomes U+FFFD
``float``                                   itself; NaN and the infinities become ``null``
messages, pydantic 1 and 2                  an object, as ``model_dump()`` gives it
dataclasses                                 an object of their fields
mappings                                    an object; see :func:`_keys` for keys that are no text
lists, tuples, sets, queues                 a list; a set is sorted, so that it reads the same twice
``datetime``, ``date``, ``time``            ISO 8601
``timedelta``                               seconds
``bytes``                                   base64
``Decimal``, ``UUID``, paths, …             their string
``Enum``                                    its value
anything else                               its string, or ``<Type>`` when ``str()`` fails
a value inside itself                       :data:`CIRCULAR`
a value more than 150 levels deep           :data:`TOO_DEEP`
==========================================  ====================================================

Keys that begin with ``__pregel_`` are LangGraph's own and are left out wherever they stand;
``__interrupt__`` stays.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import numbers
import re
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from deerstore.gateway.hidden_images import drop_embedded_images, is_hidden_message

__all__ = ["CIRCULAR", "TOO_DEEP", "serialize_channel_values_for_api"]

CIRCULAR = "<circular reference>"
"""Stands for a value that contains itself."""

TOO_DEEP = "<nested too deeply>"
"""Stands for a value below the deepest level that is given out."""

_MAX_DEPTH = 150
# Python's own limit for the decimal digits of an integer, in bits, rounded down.
_MAX_INT_BITS = 14_000
_INTERNAL_PREFIX = "__pregel_"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MISSING = object()


def serialize_channel_values_for_api(values: Any) -> Any:
    """Channel values as data that ``json.dumps(x, allow_nan=False)`` takes.

    The result shares nothing with ``values``, which is never changed. In messages marked
    ``hide_from_ui`` embedded image data is dropped and everything else stays, in order. No
    value, however broken, makes the call fail.
    """
    return _plain(values, 0, set())


def _plain(value: Any, depth: int, path: set[int]) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is int:
        return _integer(value)
    if kind is not dict and kind is not list:
        scalar = _scalar(value)
        if scalar is not _MISSING:
            return scalar
    if depth >= _MAX_DEPTH:
        return TOO_DEEP
    identity = id(value)
    if identity in path:
        return CIRCULAR
    path.add(identity)
    try:
        return _container(value, depth + 1, path)
    except RecursionError:
        return TOO_DEEP
    except Exception:  # noqa: BLE001 - a state's own code may raise anything
        return _string_of(value)
    finally:
        path.discard(identity)


def _container(value: Any, depth: int, path: set[int]) -> Any:
    kind = type(value)
    if kind is dict:
        return _object(value.items(), depth, path)
    if kind is list:
        return [_plain(item, depth, path) for item in tuple(value)]
    if isinstance(value, Enum):
        return _plain(value.value, depth, path)
    if isinstance(value, Mapping):
        return _object(value.items(), depth, path)
    if isinstance(value, list | tuple | deque):
        return [_plain(item, depth, path) for item in tuple(value)]
    if isinstance(value, AbstractSet):
        return sorted((_plain(item, depth, path) for item in tuple(value)), key=_sort_key)
    if isinstance(value, type):
        return _string_of(value)
    fields = _model_fields(value)
    if fields is not _MISSING:
        # A root model dumps to whatever its root is.
        if type(fields) is dict:
            return _object(fields.items(), depth, path)
        return _plain(fields, depth, path)
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return _object([(n, getattr(value, n, None)) for n in names], depth, path)
    return _string_of(value)


def _object(items: Iterable[tuple[Any, Any]], depth: int, path: set[int]) -> dict[str, Any]:
    pairs = [(k, v) for k, v in tuple(items) if not _is_internal(k)]
    names = [k for k, _ in pairs]
    if not all(type(name) is str and name.isascii() for name in names):
        names = _keys(names)
    plain = {
        name: _plain(value, depth, path) for name, (_, value) in zip(names, pairs, strict=True)
    }
    return drop_embedded_images(plain) if is_hidden_message(plain) else plain


def _is_internal(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(_INTERNAL_PREFIX)


def _keys(keys: list[Any]) -> list[str]:
    """Object keys for mapping keys of any type, each one distinct.

    Text keys keep their name. Any other key becomes text the way :mod:`json` does it (``1``,
    ``true``, ``null``), else its scalar form or its string; when that name is taken, the type is
    added (``1 (int)``), and then a number.
    """
    names: list[str | None] = [
        key if type(key) is str and not _SURROGATE.search(key) else None for key in keys
    ]
    taken = {name for name in names if name is not None}
    if len(taken) == len(keys):
        return [name for name in names if name is not None]
    result: list[str] = []
    for key, known in zip(keys, names, strict=True):
        if known is not None:
            result.append(known)
            continue
        base = name = _key_text(key)
        if name in taken:
            base = name = f"{base} ({_type_name(key)})"
        count = 2
        while name in taken:
            name = f"{base} {count}"
            count += 1
        taken.add(name)
        result.append(name)
    return result


def _key_text(key: Any) -> str:
    plain = _plain(key.value if isinstance(key, Enum) else key, _MAX_DEPTH, set())
    if plain is TOO_DEEP or (plain is None and key is not None):
        return _string_of(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _scalar(value: Any) -> Any:
    """A value without parts as plain data, else ``_MISSING``."""
    try:
        if isinstance(value, Enum):
            return _MISSING
        if isinstance(value, str):
            return _text(str.__str__(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return base64.b64encode(bytes(value)).decode("ascii")
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, Decimal | Fraction):
            return str(value)
        if isinstance(value, numbers.Integral):
            return _integer(int(value))
        if isinstance(value, numbers.Real):
            number = float(value)
            return number if math.isfinite(number) else None
    except Exception:  # noqa: BLE001 - a subclass may break any of these
        return _string_of(value)
    return _MISSING


def _model_fields(value: Any) -> Any:
    """The fields of a pydantic model of either generation, else ``_MISSING``."""
    model = type(value)
    if callable(getattr(model, "model_dump", None)):
        return _dumped(value)
    if callable(getattr(model, "dict", None)) and hasattr(model, "__fields__"):
        try:
            fields = value.dict()
        except Exception:  # noqa: BLE001 - validators and encoders may raise anything
            fields = None
        return fields if isinstance(fields, dict) else dict(vars(value))
    return _MISSING


def _dumped(value: Any) -> Any:
    # A serializer may raise anything.
    with suppress(Exception):
        # Declared types do not limit what is shown: list[BaseMessage] keeps its tool calls.
        fields = value.model_dump(serialize_as_any=True, warnings=False)
        if fields is None or isinstance(fields, dict | list | tuple | str | int | float):
            return fields
    # One field that cannot be dumped, or a cycle, must not hide the others.
    return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}


def _text(value: str) -> str:
    if value.isascii() or not _SURROGATE.search(value):
        return value
    # Two surrogates that make a pair are one character; a lone one is none.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _integer(value: int) -> int | str:
    # json.dumps refuses an integer of more digits than Python prints.
    return value if value.bit_length() <= _MAX_INT_BITS else hex(value)


def _string_of(value: Any) -> str:
    try:
        return _text(str.__str__(str(value)))
    except Exception:  # noqa: BLE001 - a broken __str__ may raise anything
        return f"<{_type_name(value)}>"


def _type_name(value: Any) -> str:
    return _text(type(value).__name__)


def _sort_key(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)
