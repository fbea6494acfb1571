"""One statement: its text for the driver under each variant, and what its words say it does."""

from __future__ import annotations

from collections.abc import Mapping

from deerstore.queries.lexer import Token
from deerstore.queries.model import ValueType
from deerstore.queries.untyped import casts
from deerstore.queries.variants import Run, applies

__all__ = ["Statement"]

_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})
_READING = frozenset({"SELECT", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "PRAGMA"})
_MAIN = _CHANGING | {"SELECT", "VALUES", "TABLE"}
# Words that, inside a variant block, can make one variant do what another does not.
_TELLING = _CHANGING | {"SHARE", "INTO", "RETURNING", "ANALYZE"}
_BLANK = ("space", "line", "block")

Nature = tuple[str, bool, bool]
"""Verb, whether the statement writes or locks, whether it gives rows."""


class Statement:
    """The statement of one step on one engine, every run of it rendered once."""

    def __init__(
        self, text: str, engine: str, runs: list[Run], types: Mapping[str, ValueType]
    ) -> None:
        self._text = text
        self._engine = engine
        self._runs = runs
        everything = [token for _, tokens in runs for token in tokens]
        behind = casts(text, everything, types) if engine == "postgres" else {}
        self._rendered = [_render(text, engine, tokens, behind) for _, tokens in runs]
        self.sets_id = engine == "mysql" and any(
            kind == "word" and text[start:end].upper() == "LAST_INSERT_ID"
            for kind, start, end in everything
        )
        """Whether a number of its own travels with MySQL's answer."""
        self._nature: Nature | None = None
        if _has_word(runs[0][1]) and not any(
            kind == "word" and text[start:end].upper() in _TELLING
            for conditions, tokens in runs
            if conditions
            for kind, start, end in tokens
        ):
            self._nature = classify(text, everything)

    def is_empty(self, binding: Mapping[str, str]) -> bool:
        """Whether nothing is left of it under this combination of choices."""
        return not any(
            applies(conditions, binding) and any(token[0] not in _BLANK for token in tokens)
            for conditions, tokens in self._runs
        )

    def nature(self, binding: Mapping[str, str]) -> Nature:
        """What it does under this combination of choices."""
        if self._nature is not None:
            return self._nature
        chosen: list[Token] = []
        for conditions, tokens in self._runs:
            if applies(conditions, binding):
                chosen += tokens
        return classify(self._text, chosen)

    def render(self, label: str, binding: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The driver's text and the names of its arguments, in order.

        ``label`` goes into a comment, so that the server's own views name the query.
        """
        comment = f"/* {label} */"
        parts: list[str] = []
        names: list[str] = []
        # Newer PostgreSQL releases cut what stands before the first word out of the text that
        # pg_stat_statements keeps; MySQL wants an optimizer hint right behind the first word.
        inside = self._engine == "postgres"
        if not inside:
            parts.append(f"{comment} ")
        for (conditions, _), (pieces, params, first_word) in zip(
            self._runs, self._rendered, strict=True
        ):
            if not applies(conditions, binding):
                continue
            if inside and first_word >= 0:
                begin = pieces[0]
                _join(parts, f"{begin[:first_word]} {comment}{begin[first_word:]}")
                inside = False
            else:
                _join(parts, pieces[0])
            for name, piece in zip(params, pieces[1:], strict=True):
                parts.append(self._placeholder(name, names))
                _join(parts, piece)
        if inside:
            parts.insert(0, f"{comment} ")
        return "".join(parts).rstrip(), tuple(names)

    def _placeholder(self, name: str, names: list[str]) -> str:
        if self._engine == "postgres":
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        # SQLite has ?1 too, but sqlite3 of Python 3.12.0 to 3.12.3 takes that for a name and warns.
        names.append(name)
        return "%s" if self._engine == "mysql" else "?"


def _join(parts: list[str], piece: str) -> None:
    """Append a piece, white space on both sides of the seam made one."""
    if not piece:
        return
    if piece[0].isspace() and (not parts or parts[-1][-1].isspace()):
        if piece[0] == "\n" and len(parts) > 1:
            parts[-1] = parts[-1][:-1] + "\n"
        piece = piece[1:]
    if piece:
        parts.append(piece)


_Rendered = tuple[list[str], list[str], int]
"""The text between parameters, the parameters between the texts, and where the first word ends in
the first text (-1: it has none)."""


def _render(text: str, engine: str, tokens: list[Token], behind: Mapping[int, str]) -> _Rendered:
    """``behind`` has what is to stand right behind a placeholder, by where that begins."""
    pieces: list[str] = []
    params: list[str] = []
    parts: list[str] = []
    first_word = -1
    apart = behind_string = False
    for kind, start, end in tokens:
        if kind == "param":
            apart = behind_string = False
            pieces.append("".join(parts))
            params.append(text[start + 1 : end])
            parts = [behind[start]] if start in behind else []
        elif kind == "space":
            # One blank is as good as many; a line break stays one, for the eye and for strings
            # that PostgreSQL joins over it. It joins none over a comment in /* */.
            apart = apart or (behind_string and text.startswith("/*", start))
            space = "\n" if "\n" in text[start:end] else " "
            if parts and parts[-1] in (" ", "\n"):
                space = "\n" if "\n" in (space, parts.pop()) else " "
            parts.append(" " if apart else space)
        else:
            apart, behind_string = False, kind == "string"
            piece = text[start:end]
            parts.append(piece.replace("%", "%%") if engine == "mysql" else piece)
            if first_word < 0 and kind == "word" and not params:
                first_word = sum(map(len, parts))
    pieces.append("".join(parts))
    return pieces, params, first_word


def _has_word(tokens: list[Token]) -> bool:
    return any(kind == "word" for kind, _, _ in tokens)


def classify(text: str, tokens: list[Token]) -> tuple[str, bool, bool]:
    """Verb, whether the statement writes or locks, and whether it gives rows."""
    first = verb = ""
    before = ("", "")
    depth = 0
    writes = returning = False
    for kind, start, end in tokens:
        if kind in _BLANK:
            continue
        word = text[start:end].upper()
        if kind != "word":
            depth += (word == "(") - (word == ")")
            writes = writes or (word == "=" and first == "PRAGMA")
        elif not first:
            first = word
            verb = "" if word == "WITH" else word
        elif not verb and depth == 0 and word in _MAIN:
            # Behind WITH, RECURSIVE or a comma stands a name, even one that is a keyword.
            if before[1] not in ("WITH", ",", "RECURSIVE"):
                verb = word
        elif depth == 0 and word == "RETURNING":
            returning = True
        else:
            writes = writes or _betrays_write(word, before, first)
        before = (before[1], word)
    writes = writes or verb not in _READING
    return verb or first, writes, returning if verb in _CHANGING else True


def _betrays_write(word: str, before: tuple[str, str], first: str) -> bool:
    if word in _CHANGING and before[1] == "(":
        return before[0] in ("AS", "MATERIALIZED")
    if word in ("UPDATE", "SHARE"):
        # FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, LOCK IN SHARE MODE
        return before[1] in ("FOR", "KEY", "IN")
    return (word == "INTO" and first == "SELECT") or (word == "ANALYZE" and first == "EXPLAIN")
