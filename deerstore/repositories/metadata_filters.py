"""What a search of threads asks for, as filters on ``threads_meta_index``.

The keys of a filter are described in ``sql/<engine>/metadata_match.sql``. A number travels as
text, so that the engine reads it as it reads the stored ones.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Any, TypedDict

from deerstore.errors import InvalidMetadataFilterError, InvalidValueError
from deerstore.values import INT64_MAX, INT64_MIN, text

__all__ = ["EVERY_THREAD", "Filter", "column_filter", "metadata_filters"]

logger = logging.getLogger("deerstore.repositories")

_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN = 120
"""Characters of a refused key or value in the log."""


class Filter(TypedDict):
    """One comparison, in the words of the search template."""

    term: str
    number: str
    value: str
    literal: str
    float_literal: str


def column_filter(column: str, value: str) -> Filter:
    """Threads whose ``user``, ``assistant`` or ``status`` is ``value``."""
    return _filter(f"@{column}", value=value)


def metadata_filters(metadata: Mapping[str, Any] | None) -> list[Filter]:
    """The usable filters of ``metadata``; each other one is skipped with a warning.

    Raises:
        InvalidMetadataFilterError: there are filters, and none is usable.
    """
    if metadata is None:
        return []
    if not isinstance(metadata, Mapping):
        raise InvalidValueError(
            f"metadata must be a mapping, not {type(metadata).__name__}", field="metadata"
        )
    usable: list[Filter] = []
    refused: list[str] = []
    for key, value in metadata.items():
        try:
            usable.append(_metadata_filter(key, value))
        except ValueError as error:
            refused.append(_shown(key))
            logger.warning("metadata filter %s is skipped: %s", _shown(key), error)
    if refused and not usable:
        raise InvalidMetadataFilterError(
            f"no metadata filter is usable; refused: {', '.join(refused)}"
        )
    return usable


def _metadata_filter(key: Any, value: Any) -> Filter:
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError("a key is 1 to 64 of ASCII letters, digits, '_' and '-'")
    key = str.__str__(key)
    if value is None:
        return _filter(f"z:{key}")
    if isinstance(value, bool):
        return _filter(f"b:{key}", value="true" if value else "false")
    if isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise ValueError(f"{_shown(value)} does not fit into 64 bits")
        digits = int.__repr__(value)
        # Only what was written as an integer equals an integer.
        return _filter(f"n:{key}", number=digits, literal=digits, float_literal="-")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{_shown(value)} is not a finite number")
        digits = str(int(value)) if value.is_integer() else ""
        return _filter(f"n:{key}", number=float.__repr__(value), literal=digits)
    if isinstance(value, str):
        try:
            return _filter(f"s:{key}", value=text("value", value))
        except InvalidValueError:
            raise ValueError(f"{_shown(value)} is text that no metadata can hold") from None
    raise ValueError(f"{_shown(value)} is a {type(value).__name__}, and no scalar")


def _filter(
    term: str,
    *,
    number: str = "0",
    value: str = "",
    literal: str = "",
    float_literal: str | None = None,
) -> Filter:
    return {
        "term": term,
        "number": number,
        "value": value,
        "literal": literal,
        "float_literal": literal if float_literal is None else float_literal,
    }


def _shown(value: Any) -> str:
    """A refused key or value, in ASCII, so that no log and no terminal can be misled by it."""
    try:
        shown = ascii(value)
    except Exception:  # noqa: BLE001 - a broken __repr__ may raise anything
        shown = f"<{type(value).__name__}>"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


EVERY_THREAD = _filter("@all")
