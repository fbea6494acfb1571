"""Where PostgreSQL cannot tell a parameter's type by itself, and the declared one is written out.

It takes a parameter's type from its surroundings: the column that it is compared with or stored
in, the argument of a function. In a few places there are none: it then refuses the statement, or
takes the value for text, where the other engines just take the value. There the placeholder gets
a cast to what its ``param`` line says.

A time gets one everywhere. It is an instant, whatever it meets: next to a column without a time
zone, which an older database may have, the parameter would become a time without one, and the
driver would refuse the value. A session's zone is UTC, so the two kinds compare and store as they
should, and indexes serve both.

===========================  =====================================================================
``:x IS NULL``               also ``IS NOT NULL``
``SELECT :x, …``             a column of its own; not in an ``INSERT … SELECT``, whose table tells
``unnest(:x)``               and other functions that take an array of any type
a ``timestamp``              and a ``timestamp[]``, wherever it stands
===========================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deerstore.queries.lexer import Token
from deerstore.queries.model import ValueType

__all__ = ["casts"]

_TYPES = {
    "text": "text",
    "int": "bigint",
    "float": "double precision",
    "bool": "boolean",
    "timestamp": "timestamptz",
    "json": "json",
    "bytes": "bytea",
}
_BLANK = ("space", "line", "block")
_ENDS_COLUMNS = frozenset(
    {"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"}
    | {"UNION", "EXCEPT", "INTERSECT"}
)
_BEGINS_CONDITION = frozenset(
    {"(", ",", "AND", "OR", "NOT", "WHERE", "ON", "HAVING", "WHEN", "THEN", "ELSE", "SELECT"}
)
_ANY_ARRAY = frozenset({"UNNEST", "CARDINALITY", "ARRAY_LENGTH"})
_NULL_TESTS = (["IS", "NULL"], ["IS", "NOT", "NULL"])
# Without a cast these are text already, and still fit what a UNION makes of them.
_TEXT = ("text", "json")


@dataclass(slots=True)
class _Level:
    """What is known inside one pair of parentheses."""

    opened_by: str = ""
    """The word before the parenthesis."""
    columns: bool = False
    """Whether the columns of a SELECT are being listed."""
    inserts: bool = False


def casts(text: str, tokens: list[Token], types: Mapping[str, ValueType]) -> dict[int, str]:
    """The casts of one statement, by where their placeholders begin."""
    found: dict[int, str] = {}
    levels = [_Level()]
    kinds = [token for token in tokens if token[0] not in _BLANK]
    words = [text[start:end].upper() for _, start, end in kinds]
    before = ""
    for index, (kind, start, end) in enumerate(kinds):
        word = words[index]
        level = levels[-1]
        if kind == "param":
            declared = types.get(text[start + 1 : end])
            if declared and _is_untyped(declared, level, before, words[index + 1 : index + 4]):
                found[start] = f"::{_TYPES[declared.base]}{'[]' if declared.is_list else ''}"
        elif word == "(":
            levels.append(_Level(before))
        elif word == ")" and len(levels) > 1:
            levels.pop()
        elif kind == "word":
            level.inserts = level.inserts or word == "INSERT"
            if word == "SELECT":
                level.columns = not level.inserts
            elif word in _ENDS_COLUMNS:
                level.columns = False
        before = word
    return found


def _is_untyped(declared: ValueType, level: _Level, before: str, after: list[str]) -> bool:
    if declared.base == "timestamp":
        return after[1:2] != ["TIMESTAMPTZ"] or after[0] not in ("AS", "::")
    if before in _BEGINS_CONDITION and (after[:2] in _NULL_TESTS or after in _NULL_TESTS):
        return True
    if before in ("(", ",") and level.opened_by in _ANY_ARRAY and declared.is_list:
        return after[:1] != ["::"]
    if declared.base in _TEXT and not declared.is_list:
        return False
    stands_alone = before in ("SELECT", "ALL", "DISTINCT", ",") and (
        not after or after[0] in (",", ")", "AS", "FROM")
    )
    return level.columns and stands_alone
