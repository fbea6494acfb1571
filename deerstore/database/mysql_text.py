"""Statements as text, for MySQL's text protocol: literals, and INSERTs of many rows at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

__all__ = ["BulkInsert", "bulk_insert", "literal", "mogrify"]

_MAX_BYTES = 1_000_000
"""Size of one statement: the smallest ``max_allowed_packet`` in use is 1 MiB."""


def _float(value: float) -> str:
    # Without an exponent the server would read a DECIMAL.
    text = repr(value)
    return text if "e" in text else f"{text}e0"


_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "NULL",
    int: str,
    bool: lambda value: "1" if value else "0",
    float: _float,
    Decimal: str,
    bytes: lambda value: f"X'{value.hex()}'",
    # In UTC, as everything is here; the offset would not be understood everywhere.
    datetime: lambda value: f"'{value.isoformat(' ', 'microseconds')[:26]}'",
}


def literal(value: Any, raw: Any) -> str:
    """A value as SQL. ``raw`` is the driver's connection, which knows how to escape text."""
    if type(value) is str:
        return f"'{raw.escape_string(value)}'"
    return _PLAIN[type(value)](value)


def mogrify(sql: str, args: Sequence[Any], raw: Any) -> str:
    """A statement with its arguments in place of ``%s``."""
    return sql % tuple([literal(value, raw) for value in args])


class BulkInsert:
    """An INSERT with one row of placeholders, to be sent with many rows."""

    __slots__ = ("_head", "_row", "_tail", "sql")

    def __init__(self, sql: str, head: str, row: str, tail: str) -> None:
        self.sql = sql
        self._head = head % ()
        self._row = row
        self._tail = tail % ()

    def statements(self, rows: Sequence[Sequence[Any]], raw: Any) -> Iterator[str]:
        """As few statements as the size of a packet allows."""
        parts: list[str] = []
        size = 0
        for args in rows:
            part = mogrify(self._row, args, raw)
            length = len(part) if part.isascii() else len(part.encode("utf-8", "surrogatepass"))
            weight = length + 1
            if parts and size + weight > _MAX_BYTES:
                yield self._head + ",".join(parts) + self._tail
                parts, size = [], 0
            parts.append(part)
            size += weight
        if parts:
            yield self._head + ",".join(parts) + self._tail


_TOKEN = re.compile(
    r"""/\*.*?\*/ | (?:--[ \t]|\#)[^\n]* | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`
        | (?P<word>\w+) | (?P<open>\() | (?P<close>\))""",
    re.VERBOSE | re.DOTALL,
)


def bulk_insert(sql: str) -> BulkInsert | None:
    """The parts of ``INSERT … VALUES (…)``; None when it is something else.

    All placeholders have to stand in the one row of values.
    """
    depth = 0
    first: str | None = None
    start = end = -1
    values_seen = False
    for token in _TOKEN.finditer(sql):
        word = token["word"]
        if word is not None:
            first = first or word.upper()
            values_seen = values_seen or (depth == 0 and word.upper() in ("VALUES", "VALUE"))
        elif token["open"]:
            if values_seen and depth == 0 and start < 0:
                start = token.start()
            depth += 1
        elif token["close"]:
            depth -= 1
            if depth == 0 and start >= 0 and end < 0:
                end = token.end()
    if first not in ("INSERT", "REPLACE") or end < 0:
        return None
    head, row, tail = sql[:start], sql[start:end], sql[end:]
    rest = tail.strip().upper()
    if "%s" in head or "%s" in tail or rest.startswith(","):
        return None
    return BulkInsert(sql, head, row, tail)
