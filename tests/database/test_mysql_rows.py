"""Rows out of the bytes of MySQL's text protocol."""

from __future__ import annotations

from datetime import date

import pytest

from deerstore.database.mysql_rows import reader, take_rows

READERS = (reader("utf8", None), reader("ascii", int), reader(None, None))


def packet(seq: int, payload: bytes, size: int | None = None) -> bytes:
    return (len(payload) if size is None else size).to_bytes(3, "little") + bytes([seq]) + payload


def taken(data: bytes, seq: int = 5) -> tuple[list[tuple], bytes, int]:
    """The rows, the bytes that are left, and the next packet's number."""
    rows: list[tuple] = []
    used, seq = take_rows(data, seq, READERS, rows)
    return rows, data[used:], seq


GOOD = packet(5, b"\x02\xc3\xbc\x0212\x01\xff")
ROW = ("ü", 12, b"\xff")


def test_rows_are_taken_up_to_the_end():
    more = packet(6, b"\x00\xfb\x00")
    end = packet(7, b"\xfe\x00\x00\x02\x00")
    assert taken(GOOD + more + end) == ([ROW, ("", None, b"")], end, 7)


def test_numbers_of_packets_begin_again():
    assert taken(packet(255, GOOD[4:]) + packet(0, GOOD[4:]), 255) == ([ROW, ROW], b"", 1)


@pytest.mark.parametrize("length", [250, 251, 255, 256, 65535, 65536])
def test_lengths_are_of_one_to_four_bytes(length):
    width = 0 if length < 251 else 2 if length < 65536 else 3
    prefix = length.to_bytes(width, "little") if width else b""
    head = bytes([250 + width if width else length])
    data = packet(5, head + prefix + b"x" * length + b"\x011\xfb")
    assert taken(data) == ([("x" * length, 1, None)], b"", 6)


@pytest.mark.parametrize(
    "rest",
    [
        packet(6, b"\xfe\x00\x00\x02\x00"),
        packet(6, b"\xff\x26\x05#70100Query execution was interrupted"),
        packet(7, GOOD[4:]),
        packet(0, b"\xff\x1d\x04gone"),
        packet(6, GOOD[4:], size=0),
        packet(6, GOOD[4:], size=0xFFFFFF),
        packet(6, b"\x01a\x011"),
        packet(6, b"\x01a\x011\x01b\x01c"),
        packet(6, b"\x01a\x011\x05b"),
        packet(6, b"\xfe\x01\x00\x00\x00\x00\x00\x00\x00a\x011\x01b"),
    ],
    ids=[
        *("the end", "an error", "another number", "the server's farewell", "nothing"),
        *("16 MiB and more", "fewer values", "more values", "half a value", "a huge value"),
    ],
)
def test_everything_else_is_left_where_it_is(rest):
    assert taken(GOOD + rest) == ([ROW], rest, 6)


def test_a_row_that_has_not_arrived_is_left_where_it_is():
    for cut in range(len(GOOD)):
        rest = packet(6, GOOD[4:])[:cut]
        assert taken(GOOD + rest) == ([ROW], rest, 6)


def test_converters_are_given_text_or_bytes():
    rows: list[tuple] = []
    readers = (reader("ascii", date.fromisoformat), reader(None, bytes.hex), reader("latin1", None))
    take_rows(packet(1, b"\x0a2026-01-02\x01\xff\x01\xfc"), 1, readers, rows)
    assert rows == [(date(2026, 1, 2), "ff", "ü")]
