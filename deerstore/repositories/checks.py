"""Value rules of optional arguments: ``None`` passes, anything else is checked."""

from __future__ import annotations

import math

from deerstore.errors import InvalidValueError
from deerstore.repositories.contracts.types import IdLike
from deerstore.values import INT64_MAX, free_text, identifier, page_bound, text

__all__ = [
    "optional_free_text",
    "optional_identifier",
    "optional_limit",
    "optional_text",
    "owned",
    "seconds",
]

_TEN_YEARS = 10 * 366 * 86_400.0


def optional_identifier(field: str, value: IdLike | None, length: int = 64) -> str | None:
    """An id of at most ``length`` characters, or ``None``."""
    return None if value is None else identifier(field, value, length)


def optional_text(field: str, value: str | None, length: int) -> str | None:
    """A short text of at most ``length`` characters, or ``None``."""
    return None if value is None else text(field, value, length)


def optional_free_text(field: str, value: str | None) -> str | None:
    """Free text of any length, or ``None``."""
    return None if value is None else free_text(field, value)


def optional_limit(value: int | None) -> int:
    """A ``limit``; ``None`` is none, which every engine reads as its largest number."""
    return INT64_MAX if value is None else page_bound("limit", value)


def owned(params: dict[str, object], user_id: IdLike | None) -> bool:
    """Put a filter by owner into ``params``; True when there is one."""
    if user_id is None:
        return False
    params["user_id"] = identifier("user_id", user_id)
    return True


def seconds(field: str, value: float, *, least: float = -_TEN_YEARS) -> float:
    """A number of seconds, within ten years."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValueError(f"{field} must be a number of seconds", field=field)
    if not least <= value <= _TEN_YEARS:
        raise InvalidValueError(
            f"{field} must be a number of seconds from {least:g} to {_TEN_YEARS:g}", field=field
        )
    return float(value)
