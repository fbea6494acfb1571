"""The value rules, in one place and the same for every engine.

Everything that enters a repository passes through here before any I/O, so that an engine never
decides what is accepted. The functions return the value as it is to be stored, or raise
:class:`~deerstore.errors.InvalidValueError` with the field's name, never with the value.

Lengths count characters. An empty string is a value like any other.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from deerstore.errors import InvalidValueError

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "SUMMARY_LENGTH",
    "as_utc",
    "boolean",
    "choice",
    "decode_json",
    "encode_exact_json",
    "encode_object",
    "fold_email",
    "free_text",
    "identifier",
    "identifiers",
    "int64",
    "page_bound",
    "stored_object",
    "summary",
    "text",
    "utcnow",
]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
SUMMARY_LENGTH = 2_000
"""Characters kept of ``first_human_message`` and ``last_ai_message``."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


# -- text ----------------------------------------------------------------------------------------


def identifier(field: str, value: str | uuid.UUID, length: int = 64) -> str:
    """An id as it is stored: a string of at most ``length`` characters.

    A :class:`uuid.UUID` becomes its canonical string. U+0000 and lone surrogates are refused,
    since no two engines agree on them.
    """
    # The ordinary case, here and below, at the price of one call.
    if type(value) is str and len(value) <= length and value.isprintable():
        return value
    return str(value) if isinstance(value, uuid.UUID) else text(field, value, length)


def identifiers(field: str, values: Iterable[str | uuid.UUID], length: int = 64) -> list[str]:
    """Several ids, each checked as :func:`identifier` does; duplicates are kept."""
    if isinstance(values, str):
        raise InvalidValueError(f"{field} must be a list of ids, not one string", field=field)
    return [identifier(f"{field}[{i}]", value, length) for i, value in enumerate(values)]


def text(field: str, value: str, length: int | None = None) -> str:
    """A short text (a status, an event type, an e-mail) of at most ``length`` characters."""
    if not isinstance(value, str):
        raise InvalidValueError(
            f"{field} must be a string, not {type(value).__name__}", field=field
        )
    if length is not None and len(value) > length:
        raise InvalidValueError(
            f"{field} is {len(value)} characters long; at most {length} are allowed", field=field
        )
    if not value.isprintable() and _UNSTORABLE.search(value):
        raise InvalidValueError(
            f"{field} contains U+0000 or a lone surrogate, which cannot be stored", field=field
        )
    # A subclass (a string enum) would reach the driver as itself.
    return value if type(value) is str else str.__str__(value)


def choice(field: str, value: str, allowed: Iterable[str]) -> str:
    """A text that must be one of ``allowed``."""
    options = allowed if type(allowed) is tuple else tuple(allowed)
    if type(value) is str and value in options:
        return value
    if not isinstance(value, str) or value not in options:
        raise InvalidValueError(f"{field} must be one of: {', '.join(options)}", field=field)
    return text(field, value)


def free_text(field: str, value: str, length: int | None = None) -> str:
    """Words of a person or a model: any Unicode, U+0000 and lone surrogates become U+FFFD.

    With ``length`` a longer text is refused.
    """
    if not isinstance(value, str):
        raise InvalidValueError(
            f"{field} must be a string, not {type(value).__name__}", field=field
        )
    if length is not None and len(value) > length:
        raise InvalidValueError(
            f"{field} is {len(value)} characters long; at most {length} are allowed", field=field
        )
    if not value.isprintable():
        value = _UNSTORABLE.sub("\ufffd", value)
    return value if type(value) is str else str.__str__(value)


def summary(field: str, value: str) -> str:
    """A message summary: free text cut to :data:`SUMMARY_LENGTH` characters."""
    return free_text(field, value)[:SUMMARY_LENGTH]


def fold_email(email: str) -> str:
    """The form of an e-mail address in which letter case does not count."""
    return email.lower()


# -- numbers -------------------------------------------------------------------------------------


def int64(field: str, value: int) -> int:
    """A whole number that a signed 64-bit column holds."""
    if type(value) is int and INT64_MIN <= value <= INT64_MAX:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValueError(
            f"{field} must be an integer, not {type(value).__name__}", field=field
        )
    if not INT64_MIN <= value <= INT64_MAX:
        raise InvalidValueError(f"{field} does not fit into 64 bits", field=field)
    return int(value)


def page_bound(field: str, value: int) -> int:
    """A ``limit`` or an ``offset``: a whole number of at least 0."""
    number = int64(field, value)
    if number < 0:
        raise InvalidValueError(f"{field} must be 0 or more", field=field)
    return number


def boolean(field: str, value: bool) -> bool:
    """A truth value; numbers are not taken for one."""
    if not isinstance(value, bool):
        raise InvalidValueError(
            f"{field} must be a boolean, not {type(value).__name__}", field=field
        )
    return value


# -- time ----------------------------------------------------------------------------------------


def utcnow() -> datetime:
    """Now, aware, in UTC, with microseconds."""
    return datetime.now(UTC)


def as_utc(field: str, value: datetime | str) -> datetime:
    """An instant as an aware datetime in UTC.

    An aware value keeps its instant, a naive one means UTC, a string is ISO 8601.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidValueError(
                f"{field} must be an ISO 8601 time such as 2026-01-31T12:00:00Z", field=field
            ) from None
    if not isinstance(value, datetime):
        raise InvalidValueError(
            f"{field} must be a datetime, not {type(value).__name__}", field=field
        )
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidValueError(f"{field} lies outside the years 1 to 9999", field=field) from None


# -- JSON ----------------------------------------------------------------------------------------


def encode_object(field: str, value: Mapping[str, Any]) -> str:
    """Strict JSON text of an object with string keys: metadata, token maps.

    NaN, Infinity, U+0000, lone surrogates and values that are not JSON are refused; the error
    names the path.
    """
    if not isinstance(value, dict):
        raise InvalidValueError(
            f"{field} must be a dict with string keys, not {type(value).__name__}", field=field
        )
    if not value:
        return "{}"
    try:
        if _is_plain(value) and (text := _encode_if_storable(value)) is not None:
            return text
        # Something unusual: the slow way finds out what, and where.
        _check_strict(value, field)
        return _encode_strict(value)
    except RecursionError:
        raise InvalidValueError(
            f"{field} is nested too deeply or contains itself", field=field
        ) from None


_ATOMS = frozenset({str, int, float, bool, type(None)})
_KEYS = frozenset({str})


def _is_plain(value: Any) -> bool:
    """Whether it consists of nothing but JSON's own types, with string keys."""
    kind = type(value)
    if kind is dict:
        if not _KEYS.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list:
        return kind in _ATOMS
    return _ATOMS.issuperset(map(type, value)) or all(map(_is_plain, value))


def _encode_if_storable(value: Any) -> str | None:
    """The JSON text, unless it has a number or a character that is refused."""
    try:
        text = _encode_strict(value)
    except ValueError:
        return None
    if "\\u0000" in text or not (text.isascii() or _SURROGATE.search(text) is None):
        return None
    return text


def _check_strict(value: Any, path: str) -> None:
    kind = type(value)
    if kind is str or isinstance(value, str):
        # isprintable() is a fast "nothing unusual here": U+0000 and surrogates are not printable.
        if not value.isprintable() and _UNSTORABLE.search(value):
            raise InvalidValueError(
                f"{path} contains U+0000 or a lone surrogate, which JSON metadata cannot hold",
                field=path,
            )
    elif value is None or kind is bool or isinstance(value, int):
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValueError(f"{path} is NaN or infinite, which is not JSON", field=path)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidValueError(
                    f"{path} has a key of type {type(key).__name__}; keys must be strings",
                    field=path,
                )
            shown = key.encode("ascii", "backslashreplace").decode()
            if not key.isprintable() and _UNSTORABLE.search(key):
                raise InvalidValueError(
                    f"{path} has a key with U+0000 or a lone surrogate", field=path
                )
            _check_strict(item, f"{path}.{shown}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_strict(item, f"{path}[{index}]")
    else:
        raise InvalidValueError(
            f"{path} is of type {kind.__name__}, which is not a JSON value", field=path
        )


def encode_exact_json(field: str, value: Any, *, allow_nan: bool) -> str:
    """JSON text that decodes to the same value and types: event content, run kwargs.

    The text is ASCII, so that U+0000 and lone surrogates survive as escapes on every engine.
    A value that is not JSON becomes its string, tuples become lists, keys become strings.
    ``allow_nan=False`` refuses NaN and Infinity with the path.
    """
    try:
        return _encode_exact[allow_nan](value)
    except (TypeError, ValueError, RecursionError):
        # An exotic key, a NaN to be named, or a cycle: the slow way finds out which.
        pass
    try:
        return _encode_exact[True](_exact(value, field, allow_nan))
    except RecursionError:
        raise InvalidValueError(
            f"{field} is nested too deeply or contains itself", field=field
        ) from None


def _exact(value: Any, path: str, allow_nan: bool) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, float):
        if not allow_nan and not math.isfinite(value):
            raise InvalidValueError(f"{path} is NaN or infinite, which is refused here", field=path)
        return float(value)
    if isinstance(value, dict):
        return {
            _exact_key(key): _exact(item, f"{path}.{ascii(_exact_key(key))[1:-1]}", allow_nan)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_exact(item, f"{path}[{i}]", allow_nan) for i, item in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return _as_string(value)


def _exact_key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return _as_string(key)


def _as_string(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ may raise anything
        return f"<{type(value).__name__}>"


def _encoder(*, exact: bool, allow_nan: bool) -> Callable[[Any], str]:
    """An encoder to compact JSON, ASCII when ``exact``; a cycle ends in a RecursionError.

    ``JSONEncoder.encode`` makes the C encoder anew for each call, which takes longer than to encode
    the metadata of an event.
    """
    plain = json.JSONEncoder(
        separators=(",", ":"), ensure_ascii=exact, allow_nan=allow_nan, check_circular=False,
        default=_as_string if exact else None,
    )  # fmt: skip
    make, escape = json.encoder.c_make_encoder, json.encoder.encode_basestring  # type: ignore[attr-defined]
    if make is None:
        return plain.encode
    if exact:
        escape = json.encoder.encode_basestring_ascii
    chunks = make(None, plain.default, escape, None, ":", ",", False, False, allow_nan)
    return lambda value: "".join(chunks(value, 0))


_encode_exact = {
    allow_nan: _encoder(exact=True, allow_nan=allow_nan) for allow_nan in (True, False)
}
_encode_strict = _encoder(exact=False, allow_nan=False)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def decode_json(stored: str | bytes | bytearray) -> Any:
    """JSON text to a value, as it was written: big integers, NaN and lone surrogates included."""
    try:
        value, end = _scan(stored, 0)
        if end == len(stored):
            return value
    except (StopIteration, TypeError):
        # Blanks in front, bytes, or no JSON at all: json.loads takes it or says what is wrong.
        pass
    return json.loads(stored)


def stored_object(stored: Any) -> dict[str, Any]:
    """A JSON object as it lies in a table, whoever wrote it.

    What is not an object (null, a list, broken text) reads as ``{}``: a foreign row never makes a
    list fail.
    """
    if stored == "{}" or stored is None:
        return {}
    try:
        value = decode_json(stored)
    except TypeError:
        value = stored
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}
