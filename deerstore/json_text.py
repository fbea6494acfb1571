"""JSON between Python and text, strict or exact, and the same for every engine.

*Strict* is for metadata: what is not JSON is refused with its path. *Exact* is for event content
and a run's arguments: everything has a text, and what is JSON comes back as it was.

pydantic-core writes and reads what it and the standard library agree upon, in half the time. It is
not asked to write a float or anything that is not one of JSON's own types, and what it refuses (a
lone surrogate, hundreds of levels) is left to the standard library, as are all errors.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from deerstore.errors import InvalidValueError

__all__ = [
    "decode_json",
    "encode_exact_json",
    "encode_exact_json_and_copy",
    "encode_object",
    "encode_object_and_copy",
    "stored_object",
]

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NUL = "\\u0000"
"""U+0000 in JSON text: as good as always, since what it escapes may be a backslash of its own."""
_KEYS: frozenset[type] = frozenset({str})
_ATOMS: frozenset[type] = frozenset({str, int, bool, type(None)})
_DIGITS = 4_300
"""The most digits of a number that pydantic-core reads, and Python unless it is told otherwise."""
_CONTAINERS: frozenset[type] = frozenset({dict, list})


def _nothing_but(atoms: frozenset[type]) -> Callable[[Any], bool]:
    """Whether a value consists of ``atoms`` alone, in lists and in dicts with string keys."""

    def is_plain(value: Any) -> bool:
        kind = type(value)
        if kind is dict:
            if not _KEYS.issuperset(map(type, value)):
                return False
            value = value.values()
        elif kind is not list:
            return kind in atoms
        return atoms.issuperset(map(type, value)) or all(map(is_plain, value))

    return is_plain


_is_plain = _nothing_but(_ATOMS)
_is_plain_with_floats = _nothing_but(_ATOMS | {float})


def _plain_text(value: Any) -> str | None:
    """The JSON text of a dict or a list of nothing but strings, whole numbers, truth values and
    ``None``; None where others have to look.
    """
    try:
        if type(value) in _CONTAINERS and _is_plain(value):
            data = to_json(value)
            if len(data) > _DIGITS:
                # A longer number would be written all the same: this raises for it.
                from_json(data)
            return data.decode()
    except (ValueError, RecursionError):
        pass
    return None


def _plain_text_and_copy(value: Any) -> tuple[str, Any] | None:
    """The same, with a copy of the value as the text reads."""
    items = value
    try:
        if type(value) is dict:
            if not _KEYS.issuperset(map(type, value)):
                return None
            items = value.values()
            if _ATOMS.issuperset(map(type, items)):
                data = to_json(value)
                return data.decode(), value.copy() if len(data) <= _DIGITS else from_json(data)
        elif type(value) is not list:
            return None
        if all(map(_is_plain, items)):
            data = to_json(value)
            return data.decode(), from_json(data)
    except (ValueError, RecursionError):
        pass
    return None


def encode_object(field: str, value: Mapping[str, Any]) -> str:
    """Strict JSON text of an object with string keys: metadata, token maps.

    NaN, Infinity, U+0000, lone surrogates, numbers of thousands of digits and values that are not
    JSON are refused; the error names the path.
    """
    if not isinstance(value, dict):
        raise InvalidValueError(
            f"{field} must be a dict with string keys, not {type(value).__name__}", field=field
        )
    if not value:
        return "{}"
    plain = _plain_text(value)
    if plain is not None and _NUL not in plain:
        return plain
    try:
        if _is_plain_with_floats(value) and (text := _encode_if_storable(value)) is not None:
            return text
        # Something unusual: the slow way finds out what, and where.
        _check_strict(value, field)
        return _encode_strict(value)
    except RecursionError:
        raise InvalidValueError(
            f"{field} is nested too deeply or contains itself", field=field
        ) from None


def encode_object_and_copy(field: str, value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The text of :func:`encode_object`, and a copy of the value as that text reads."""
    plain = _plain_text_and_copy(value) if type(value) is dict else None
    if plain is not None and _NUL not in plain[0]:
        return plain
    text = encode_object(field, value)
    return text, decode_json(text)


def _encode_if_storable(value: Any) -> str | None:
    """The JSON text, unless it has a number or a character that is refused."""
    try:
        text = _encode_strict(value)
    except ValueError:
        return None
    if _NUL in text or not (text.isascii() or _SURROGATE.search(text) is None):
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
    elif isinstance(value, int | float):
        _check_number(value, path, allow_nan=False)
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
    elif value is not None:
        raise InvalidValueError(
            f"{path} is of type {kind.__name__}, which is not a JSON value", field=path
        )


def _check_number(value: float, path: str, allow_nan: bool) -> None:
    if isinstance(value, float):
        if not allow_nan and not math.isfinite(value):
            raise InvalidValueError(f"{path} is NaN or infinite, which is refused", field=path)
        return
    try:
        int.__repr__(value)
    except ValueError:
        # Python reads no longer one, either, unless it is told to.
        raise InvalidValueError(
            f"{path} is a number of more than {sys.get_int_max_str_digits()} digits, which Python "
            "does not write",
            field=path,
        ) from None


def encode_exact_json(field: str, value: Any, *, allow_nan: bool) -> str:
    """JSON text that decodes to the same value and types: event content, run kwargs.

    The text is ASCII, so that U+0000 and lone surrogates survive as escapes on every engine.
    A value that is not JSON becomes its string, tuples become lists, keys become strings.
    ``allow_nan=False`` refuses NaN and Infinity with the path; a number of thousands of digits is
    refused always.
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


def encode_exact_json_and_copy(field: str, value: Any, *, allow_nan: bool) -> tuple[str, Any]:
    """What :func:`encode_exact_json` gives, and a copy of the value as that text reads.

    The text is not ASCII where it need not be.
    """
    plain = _plain_text_and_copy(value)
    if plain is not None:
        return plain
    text = encode_exact_json(field, value, allow_nan=allow_nan)
    return text, decode_json(text)


def _exact(value: Any, path: str, allow_nan: bool) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if isinstance(value, float):
        _check_number(value, path, allow_nan)
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
        _check_number(value, path, allow_nan)
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


def decode_json(stored: str | bytes | bytearray) -> Any:
    """JSON text to a value, as it was written: big integers, NaN and lone surrogates included."""
    try:
        return from_json(stored)
    except ValueError:
        # The standard library takes it or says what is wrong.
        pass
    try:
        return json.loads(stored)
    except RecursionError:
        return _decode_deep(stored)


def _decode_deep(stored: str | bytes | bytearray) -> Any:
    """JSON text that is nested too deeply for what the caller has left of the stack.

    Whoever wrote it had more left. A thread of its own has it all.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(json.loads, stored).result()


def stored_object(stored: Any) -> dict[str, Any]:
    """A JSON object as it lies in a table, whoever wrote it.

    What is not an object (null, a list, broken text) reads as ``{}``: a foreign row never makes a
    list fail.
    """
    if stored == "{}" or stored is None:
        return {}
    try:
        value = from_json(stored)
    except (ValueError, TypeError):
        value = _read_otherwise(stored)
    return value if isinstance(value, dict) else {}


def _read_otherwise(stored: Any) -> Any:
    try:
        return decode_json(stored)
    except TypeError:
        # Not text: what an engine made of it.
        return stored
    except (ValueError, RecursionError):
        return None
