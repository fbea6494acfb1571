"""Rows for MariaDB's bulk protocol: one trip in binary form, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["is_uniform"]

_MAX_BYTES = 1_000_000
"""Size of one packet: the smallest ``max_allowed_packet`` in use is 1 MiB."""
_VALUE_BYTES = 16
"""What a value takes beside its text."""


def is_uniform(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the rows can travel in one packet: each column of one type, and not NULL throughout.

    The packet names the types of the columns once, in front of the rows.
    """
    size = len(rows) * len(rows[0]) * _VALUE_BYTES
    for column in zip(*rows, strict=True):
        kinds = set(map(type, column))
        kinds.discard(type(None))
        if len(kinds) != 1:
            return False
        if kinds == {str}:
            text = "".join([value for value in column if value is not None])
            size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        elif kinds == {bytes}:
            size += sum(len(value) for value in column if value is not None)
    return size < _MAX_BYTES
