"""From a driver's rows to typed values, with as little as possible in between.

The function that decodes a query's rows is written out for its columns when the query is compiled,
as dataclasses write their ``__init__``: a loop over columns inside the loop over rows would cost
more than the decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deerstore.queries.model import Codec, Column

__all__ = ["Decoder", "build_decoder"]

Decoder = Callable[[Sequence[Sequence[Any]]], list[tuple[Any, ...]]]


def build_decoder(columns: tuple[Column, ...] | None, codec: Codec) -> Decoder | None:
    """A function from a driver's rows to tuples of typed values.

    None when the rows are typed already.
    """
    work = {
        index: decode
        for index, column in enumerate(columns or ())
        if (decode := codec.decoders.get(column.type)) is not None
    }
    if columns is None or not work:
        return None
    return _written_out(columns, work, codec)


def _by_value(work: dict[int, Callable[[Any], Any]]) -> Decoder:
    def decoder(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        decoded = []
        for row in rows:
            values = list(row)
            for index, decode in work.items():
                if index < len(values) and values[index] is not None:
                    values[index] = decode(values[index])
            decoded.append(tuple(values))
        return decoded

    return decoder


def _written_out(
    columns: tuple[Column, ...], work: dict[int, Callable[[Any], Any]], codec: Codec
) -> Decoder:
    names: dict[str, Any] = {"by_value": _by_value(work)}
    values = []
    for index, column in enumerate(columns):
        value = f"c{index}"
        if index in work:
            names[f"decode{index}"] = work[index]
            template, names[f"with{index}"] = codec.shortcuts.get(
                column.type, ("{decode}({value})", None)
            )
            call = template.format(value=value, decode=f"decode{index}", extra=f"with{index}")
            value = f"None if {value} is None else {call}"
        values.append(value)
    row = ", ".join(f"c{index}" for index in range(len(columns)))
    # By value goes what the declaration does not fit (the caller finds the words for it), and what
    # another writer stored in another form.
    source = f"""
def decoder(rows):
    if rows and len(rows[0]) != {len(columns)}:
        return by_value(rows)
    try:
        return [({", ".join(values)},) for {row}, in rows]
    except (ValueError, TypeError, AttributeError):
        return by_value(rows)
"""
    # The source is made of numbers and of the templates in the engines' codecs.
    exec(source, names)  # noqa: S102
    decoder: Decoder = names["decoder"]
    return decoder
