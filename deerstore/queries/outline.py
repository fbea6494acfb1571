"""A statement's result columns by themselves, as a SELECT that SQLite can describe without running.

A parameter becomes NULL, and what a write gives back (``RETURNING``) becomes a SELECT from the
table that is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from deerstore.queries.lexer import SourceText, tokenize
from deerstore.queries.model import CompiledStep

__all__ = ["outlines"]

_BLANK = ("space", "line", "block")
# Behind the words on the left stands the written table, up to one of the words on the right.
_TARGETS = {
    "INSERT": ("INTO", frozenset({"VALUES", "SELECT", "DEFAULT", "WITH", "RETURNING"})),
    "REPLACE": ("INTO", frozenset({"VALUES", "SELECT", "DEFAULT", "WITH", "RETURNING"})),
    "UPDATE": ("UPDATE", frozenset({"SET"})),
    "DELETE": ("FROM", frozenset({"WHERE", "RETURNING"})),
}
_GIVES_AN_ARGUMENT = frozenset(
    {"MIN", "MAX", "COALESCE", "IFNULL", "NULLIF"}
    | {"FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "LAG", "LEAD"}
)


def outlines(step: CompiledStep) -> tuple[str, ...]:
    """The SELECTs that have the columns of an SQLite statement; none where there is no such form.

    The second one, if any, has the argument in the place of each function that gives one of its
    arguments: ``MAX(created_at)`` is a time as ``created_at`` is, but only a column has a type.
    """
    text = step.sql
    words = [
        (kind, "NULL" if kind == "native" else text[start:end])
        for kind, start, end in tokenize(SourceText(text, ""), "sqlite")
        if kind not in _BLANK
    ]
    if step.keyword in _TARGETS:
        words = _returned(words, step.keyword)
    elif step.keyword not in ("SELECT", "VALUES"):
        words = []
    if not words:
        return ()
    plain = _joined(words)
    bare = _joined(_bare(words))
    return (plain,) if bare == plain else (plain, bare)


_Word = tuple[str, str]
"""Kind and text of a token."""


def _joined(words: Sequence[_Word]) -> str:
    return " ".join(text for _, text in words)


def _upper(word: _Word) -> str:
    return word[1].upper() if word[0] == "word" else ""


def _returned(words: list[_Word], verb: str) -> list[_Word]:
    opener, closers = _TARGETS[verb]
    top = _top(words)
    at = next((i for i in top if _upper(words[i]) == verb), -1)
    returning = next((i for i in reversed(top) if _upper(words[i]) == "RETURNING"), -1)
    begin = next((i for i in top if i >= at and _upper(words[i]) == opener), -1) + 1
    if at < 0 or returning < 0 or begin == 0:
        return []
    if verb == "UPDATE" and _upper(words[begin]) == "OR":
        begin += 2
    end = next(
        (i for i in top if i > begin and (_upper(words[i]) in closers or words[i][1] == "(")), -1
    )
    if end < 0:
        return []
    return [
        *words[:at],
        ("word", "SELECT"),
        *words[returning + 1 :],
        ("word", "FROM"),
        *words[begin:end],
    ]


def _top(words: Sequence[_Word]) -> list[int]:
    """Where the words stand that are in no parentheses; an opening one counts as outside."""
    found = []
    depth = 0
    for index, (kind, text) in enumerate(words):
        if kind == "punct" and text == ")":
            depth -= 1
        if depth == 0:
            found.append(index)
        if kind == "punct" and text == "(":
            depth += 1
    return found


def _bare(words: Sequence[_Word]) -> list[_Word]:
    bare: list[_Word] = []
    index = 0
    while index < len(words):
        if _upper(words[index]) in _GIVES_AN_ARGUMENT and _is(words, index + 1, "("):
            end = _closing(words, index + 1)
            argument = _argument(words[index + 2 : end])
            bare += [("punct", "("), *_bare(argument), ("punct", ")")]
            index = _behind(words, end + 1)
        else:
            bare.append(words[index])
            index += 1
    return bare


def _is(words: Sequence[_Word], index: int, text: str) -> bool:
    return index < len(words) and words[index][1].upper() == text


def _closing(words: Sequence[_Word], index: int) -> int:
    depth = 0
    for at in range(index, len(words)):
        depth += _is(words, at, "(") - _is(words, at, ")")
        if depth == 0:
            return at
    return len(words)


def _argument(words: Sequence[_Word]) -> Sequence[_Word]:
    """The first argument that names anything; else the first one."""
    arguments: list[list[_Word]] = [[]]
    top = frozenset(_top(words))
    for index in range(len(words)):
        if index in top and _is(words, index, ","):
            arguments.append([])
        elif arguments[-1] or not _is(words, index, "DISTINCT"):
            arguments[-1].append(words[index])
    for argument in arguments:
        if any(kind in ("word", "quoted") and text.upper() != "NULL" for kind, text in argument):
            return argument
    return arguments[0]


def _behind(words: Sequence[_Word], index: int) -> int:
    """Behind the FILTER and OVER of a call."""
    for clause in ("FILTER", "OVER"):
        if _is(words, index, clause):
            index = _closing(words, index + 1) + 1 if _is(words, index + 1, "(") else index + 2
    return index
