"""Variants: blocks of SQL that stand in comments, each for one choice.

``/*[ owner=on */ AND user_id = :user_id /*]*/``
    A plain block: the SQL between the two comments also runs when the file is fed to the
    engine's shell.
``/*[ order=recent: ORDER BY updated_at DESC ]*/``
    A hidden block: the SQL is inside the comment, so the shell does not see it. Of several
    choices that exclude each other, one is plain and the others are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from deerstore.queries.header import DeclaredQuery, near
from deerstore.queries.lexer import SourceText, Token, tokenize

__all__ = ["Run", "applies", "bindings", "mark"]

Condition = tuple[str, str]
"""A variant and the choice that it must have."""

Run = tuple[tuple[Condition, ...], list[Token]]
"""Consecutive tokens that stand under the same conditions."""

_OPEN = re.compile(r"/\*\[\s*(\w+)\s*=\s*(\w+)\s*\*/")
_HIDDEN = re.compile(r"/\*\[\s*(\w+)\s*=\s*(\w+)\s*:(?s:(.*))\]\*/")
_CLOSE = "/*]*/"
_DEEPEST = 2


def mark(
    source: SourceText, engine: str, tokens: list[Token], query: DeclaredQuery, used: set[str]
) -> list[Run]:
    """The tokens of one statement in runs, with the conditions under which each run stands.

    Adds the variants that occur to ``used``.
    """
    run: list[Token] = []
    runs: list[Run] = [((), run)]
    opened: list[Token] = []
    conditions: tuple[Condition, ...] = ()
    text = source.text
    for token in tokens:
        kind, start, end = token
        if kind != "block" or text.startswith("/*+", start):
            run.append(token)
            continue
        body = text[start:end]
        if body == _CLOSE:
            if not opened:
                raise source.error("this variant block end has no beginning", start, end)
            opened.pop()
            conditions = conditions[:-1]
            run = []
            runs.append((conditions, run))
            continue
        match = _OPEN.fullmatch(body) or _HIDDEN.fullmatch(body)
        if match is None:
            raise source.error(
                "malformed variant block; it is written '/*[ name=choice */ SQL /*]*/' "
                "or '/*[ name=choice: SQL ]*/'",
                start,
                end,
            )
        condition = _condition(source, query, match, start)
        used.add(condition[0])
        if len(conditions) == _DEEPEST:
            raise source.error("variant blocks nest at most one level", start, end)
        if any(condition[0] == outer for outer, _ in conditions):
            raise source.error(
                f"this block stands inside another one of variant {condition[0]!r}", start, end
            )
        if match.re is _OPEN:
            opened.append(token)
            conditions = (*conditions, condition)
        else:
            hidden = _hidden(source, engine, start + match.start(3), start + match.end(3))
            runs.append(((*conditions, condition), hidden))
        run = []
        runs.append((conditions, run))
    if opened:
        raise source.error("this variant block has no end '/*]*/'", *opened[-1][1:])
    return runs


def _hidden(source: SourceText, engine: str, start: int, end: int) -> list[Token]:
    tokens = tokenize(source, engine, start, end)
    for kind, begin, stop in tokens:
        if kind in ("native", "semicolon"):
            raise source.error(
                f"{source.text[begin:stop]!r} may not stand in a variant block", begin, stop
            )
    return [token for token in tokens if token[0] != "line"]


def _condition(
    source: SourceText, query: DeclaredQuery, match: re.Match[str], start: int
) -> Condition:
    name, choice = match[1], match[2]
    if name not in query.variants:
        known = tuple(query.variants)
        found = near(name, known)
        hint = f"; did you mean {found!r}?" if found else ""
        raise source.error(
            f"variant {name!r} is not declared{hint}", start + match.start(1), start + match.end(1)
        )
    choices = query.variants[name][0]
    if choice not in choices:
        raise source.error(
            f"variant {name!r} has no choice {choice!r}; it has {', '.join(choices)}",
            start + match.start(2),
            start + match.end(2),
        )
    return name, choice


def bindings(query: DeclaredQuery) -> Iterator[dict[str, str]]:
    """Every combination of choices, the one of all first choices first."""
    names = tuple(query.variants)
    for choices in product(*(query.variants[name][0] for name in names)):
        yield dict(zip(names, choices, strict=True))


def applies(conditions: tuple[Condition, ...], binding: Mapping[str, str]) -> bool:
    """Whether a run stands under this combination of choices."""
    return all(binding[name] == choice for name, choice in conditions)
