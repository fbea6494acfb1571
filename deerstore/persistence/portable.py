"""What every engine can keep of a graph's state, decided before an engine sees it.

PostgreSQL refuses U+0000 in JSON, MySQL cuts a key that is too long for its column, MariaDB nests
JSON 31 levels deep, SQLite's saver drops half a character. Where one engine could not give back
what it was given, all of them refuse it, with an
:class:`~deerstore.errors.InvalidValueError` that names the place.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping
from typing import Any

from deerstore.errors import InvalidValueError
from deerstore.values import INT64_MAX, INT64_MIN

__all__ = [
    "DEPTH",
    "KEY_LENGTH",
    "NAMESPACE_LENGTH",
    "check_json",
    "check_name",
    "is_inline",
    "thread_id_text",
]

NAME_LENGTH = 150
"""Characters of a thread's, a checkpoint's or a task's id, of a channel's name and version."""
PATH_LENGTH = 2_000
"""Characters of a checkpoint's namespace and of a task's path."""
KEY_LENGTH = 150
"""Characters of the key of a Store item."""
NAMESPACE_LENGTH = 500
"""Characters of a Store namespace, its labels joined with dots."""
DEPTH = 31
"""Levels of lists and objects in checkpoint metadata and in the value of a Store item."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def check_name(field: str, value: Any, length: int = NAME_LENGTH) -> str:
    """A text that becomes part of a key."""
    if not isinstance(value, str):
        raise InvalidValueError(
            f"{field} must be a string, not {type(value).__name__}", field=field
        )
    if len(value) > length:
        raise InvalidValueError(
            f"{field} is {len(value)} characters long; at most {length} are allowed", field=field
        )
    if not value.isprintable() and _UNSTORABLE.search(value):
        raise InvalidValueError(
            f"{field} contains U+0000 or a lone surrogate, which cannot be stored", field=field
        )
    return value


def thread_id_text(value: Any) -> str:
    """A thread's id as it is stored. A UUID becomes its canonical string, a number its digits."""
    if isinstance(value, uuid.UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value)
    return check_name("thread_id", value)


def is_inline(value: Any) -> bool:
    """Whether a channel's value may lie in the JSON of a checkpoint and come back as it was.

    JSON columns turn large floats into integers, refuse NaN and U+0000, and know no enum; whatever
    is not certain is kept apart, as the bytes of LangGraph's serializer.
    """
    if value is None or type(value) is bool:
        return True
    if type(value) is int:
        return INT64_MIN <= value <= INT64_MAX
    if type(value) is str:
        return value.isprintable() or _UNSTORABLE.search(value) is None
    return False


def check_json(field: str, value: Any) -> None:
    """A JSON object that every engine gives back with the same values.

    Refused are NaN and Infinity, integers beyond 64 bits, U+0000, lone surrogates, keys that are
    not strings, what is not JSON, and more than :data:`DEPTH` levels.
    """
    if not isinstance(value, Mapping):
        raise InvalidValueError(
            f"{field} must be a mapping with string keys, not {type(value).__name__}", field=field
        )
    _check(field, value, 1)


def _check(path: str, value: Any, level: int) -> None:
    if isinstance(value, str):
        _check_text(path, value)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise InvalidValueError(f"{path} does not fit into 64 bits", field=path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValueError(f"{path} is NaN or infinite, which is not JSON", field=path)
    elif isinstance(value, Mapping | list | tuple):
        if level > DEPTH:
            raise InvalidValueError(f"{path} is nested more than {DEPTH} levels deep", field=path)
        if isinstance(value, Mapping):
            for key, item in value.items():
                _check(_key_path(path, key), item, level + 1)
        else:
            for index, item in enumerate(value):
                _check(f"{path}[{index}]", item, level + 1)
    else:
        raise InvalidValueError(
            f"{path} is of type {type(value).__name__}, which is not a JSON value", field=path
        )


def _key_path(path: str, key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidValueError(
            f"{path} has a key of type {type(key).__name__}; keys must be strings", field=path
        )
    _check_text(f"a key of {path}", key)
    return f"{path}.{key.encode('ascii', 'backslashreplace').decode()}"


def _check_text(path: str, value: str) -> None:
    if not value.isprintable() and _UNSTORABLE.search(value):
        raise InvalidValueError(
            f"{path} contains U+0000 or a lone surrogate, which cannot be stored", field=path
        )
