"""The value rules, in one place and the same for every engine.

Everything that enters a repository passes through here before any I/O, so that an engine never
decides what is accepted. The functions return the value as it is to be stored, or raise
:class:`~deerstore.errors.InvalidValueError` with the field's name, never with the value.

Lengths count characters. An empty string is a value like any other.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from deerstore.errors import InvalidValueError

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "SUMMARY_LENGTH",
    "as_utc",
    "boolean",
    "choice",
    "fold_email",
    "free_text",
    "identifier",
    "identifiers",
    "int64",
    "page_bound",
    "summary",
    "text",
    "utcnow",
]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
SUMMARY_LENGTH = 2_000
"""Characters kept of ``first_human_message`` and ``last_ai_message``."""

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
