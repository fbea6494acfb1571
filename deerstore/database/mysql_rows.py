"""Rows of MySQL's text protocol, out of bytes that hold many packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

__all__ = ["Reader", "reader", "take_rows"]

Reader = tuple[Callable[[bytes], Any], Callable[[Any], Any] | None]
"""What reads a value's bytes, and what converts the outcome."""


def reader(encoding: str | None, converter: Callable[[Any], Any] | None) -> Reader:
    """How to read a column's values, which are bytes without an encoding."""
    if encoding is None:
        return bytes, converter
    if encoding == "ascii" and converter in (int, float):
        # They read digits without a text being made of them.
        return converter, None
    decode = bytes.decode if encoding == "utf8" else methodcaller("decode", encoding)
    return decode, converter


def take_rows(
    data: bytes, seq: int, readers: Sequence[Reader], rows: list[tuple[Any, ...]]
) -> tuple[int, int]:
    """Append the rows that ``data`` begins with, the first of them in packet number ``seq``.

    Stops at the first packet that is anything but a whole row that is as it should be. Gives how
    many bytes were taken, and the number of the packet after them.
    """
    start, filled = 0, len(data)
    while start + 4 < filled:
        size = data[start] | data[start + 1] << 8 | data[start + 2] << 16
        end = start + 4 + size
        # At this size a packet goes on in the next one.
        if end > filled or data[start + 3] != seq or not 0 < size < 0xFFFFFF:
            break
        packet = data[start + 4 : end]
        # The end, an error, or a value of 16 MiB.
        if packet[0] >= 0xFE:
            break
        row: list[Any] = []
        at = 0
        try:
            for read, convert in readers:
                length = packet[at]
                at += 1
                if length > 250:
                    if length == 251:
                        row.append(None)
                        continue
                    # In two, three or eight bytes.
                    width = 8 if length == 254 else length - 250
                    length = int.from_bytes(packet[at : at + width], "little")
                    at += width
                value = read(packet[at : at + length])
                at += length
                row.append(value if convert is None else convert(value))
        except IndexError:
            break
        if at != size:
            break
        rows.append(tuple(row))
        start = end
        seq = (seq + 1) % 256
    return start, seq
