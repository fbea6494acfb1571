"""SQL text to tokens, by each engine's own rules.

The tokens tile the text: joined they give it back, character by character. Only what stands
outside strings, quoted names and comments can be a placeholder.

Kinds: ``space`` ``line`` (a comment to the end of the line) ``block`` (a comment in ``/* */``)
``string`` ``quoted`` (a quoted name) ``word`` ``number`` ``param`` (``:name``) ``native`` (a
driver's own placeholder, which the files may not use) ``semicolon`` ``punct``, and on MySQL
``exec`` for the two ends of an executable comment, whose inside is SQL.
"""

from __future__ import annotations

import re
from functools import cache

from deerstore.errors import QueryFileError

__all__ = ["SourceText", "Token", "tokenize"]

Token = tuple[str, int, int]
"""Kind, start, end."""

# Possessive: what has no end must fail as a whole, not match in part.
_QUOTED_DOUBLE = r'"[^"]*+(?:""[^"]*+)*+"'
_SINGLE = r"'[^']*+(?:''[^']*+)*+'"
_BACKTICK = r"`[^`]*+(?:``[^`]*+)*+`"
_BLOCK = r"/\*(?s:.*?)\*/"
_SINGLE_ESCAPES = r"'[^'\\]*+(?:(?:\\(?s:.)|'')[^'\\]*+)*+'"
_DOUBLE_ESCAPES = r'"[^"\\]*+(?:(?:\\(?s:.)|"")[^"\\]*+)*+"'

_COMMON = {
    "word": r"[^\W\d][\w$]*",
    "param": r":[^\W\d]\w*",
    "number": r"\d[\w.]*",
    "semicolon": r";",
    "punct": r":=|::|(?s:.)",
}

# The order counts: an alternative that can begin like another one stands before it.
_RULES: dict[str, dict[str, str]] = {
    "sqlite": {
        "space": r"\s+",
        "line": r"--[^\n]*",
        "block": _BLOCK,
        "string": _SINGLE,
        "quoted": rf"{_QUOTED_DOUBLE}|{_BACKTICK}|\[[^\]]*\]",
        "native": r"\?\d*|[@$][^\W\d]\w*",
        **_COMMON,
    },
    "postgres": {
        "space": r"\s+",
        "line": r"--[^\n]*",
        # A comment may hold comments, and a dollar quote ends with its own tag: both ends are
        # looked for by hand.
        "nested": r"/\*",
        "dollar": r"\$(?:[^\W\d]\w*)?\$",
        # A string that goes on after a line break keeps its escapes.
        "string": rf"[eE]{_SINGLE_ESCAPES}(?:\s*\n\s*{_SINGLE_ESCAPES})*|{_SINGLE}",
        "quoted": _QUOTED_DOUBLE,
        "native": r"\$\d+",
        **_COMMON,
    },
    "mysql": {
        "space": r"\s+",
        # Two dashes begin a comment only before white space or a control character.
        "line": r"--(?=[\s\x00-\x1f]|\Z)[^\n]*|\#[^\n]*",
        "exec": r"/\*M?!\d*|\*/",
        "block": _BLOCK,
        "string": rf"{_SINGLE_ESCAPES}|{_DOUBLE_ESCAPES}",
        "quoted": _BACKTICK,
        "native": r"\?",
        **_COMMON,
    },
}

# What is left as a single character after the rules above was begun and never ended.
_OPENERS = {
    "sqlite": {"'": "string", '"': "quoted name", "`": "quoted name", "[": "quoted name"},
    "postgres": {"'": "string", '"': "quoted name"},
    "mysql": {"'": "string", '"': "string", "`": "quoted name"},
}
_BLANK = frozenset({"space", "line", "block"})
_COMMENT_END = re.compile(r"/\*|\*/")


@cache
def _pattern(engine: str) -> re.Pattern[str]:
    # Compiled on first use: opening one engine does not pay for the two others.
    return re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _RULES[engine].items()))


class SourceText:
    """The text of one file, and the errors that point into it."""

    __slots__ = ("file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    def line_of(self, offset: int) -> int:
        """The line of an offset, counted from 1."""
        return self.text.count("\n", 0, offset) + 1

    def error(self, message: str, start: int, end: int | None = None) -> QueryFileError:
        """The error for ``text[start:end]``, with the line and a caret under each character."""
        text = self.text
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line = text[line_start : line_end if line_end >= 0 else len(text)]
        column = start - line_start
        width = max(1, min(end if end is not None else start + 1, line_start + len(line)) - start)
        number = self.line_of(start)
        gutter = " " * len(str(number))
        # Tabs stay tabs, so that the caret stands where the terminal puts the character.
        pad = "".join("\t" if char == "\t" else " " for char in line[:column])
        return QueryFileError(
            message,
            file=self.file,
            line=number,
            column=column + 1,
            excerpt=f"  {number} | {line}\n  {gutter} | {pad}{'^' * width}",
        )


def tokenize(
    source: SourceText, engine: str, start: int = 0, end: int | None = None
) -> list[Token]:
    """The tokens of ``source.text[start:end]``. Raises for what is begun and never ended."""
    text = source.text
    stop = len(text) if end is None else end
    pattern = _pattern(engine)
    special = _SPECIAL[engine]
    tokens: list[Token] = []
    state = _State(source, engine, stop)
    position = start
    while position < stop:
        for match in pattern.finditer(text, position, stop):
            kind = match.lastgroup or ""
            begin, position = match.span()
            if kind in special:
                kind, ended = state.resolve(kind, begin, position, tokens)
                tokens.append((kind, begin, ended))
                if ended != position:
                    position = ended
                    break
            else:
                tokens.append((kind, begin, position))
    state.finish()
    return tokens


_SPECIAL = {
    "sqlite": frozenset({"punct"}),
    "postgres": frozenset({"punct", "param", "nested", "dollar"}),
    "mysql": frozenset({"punct", "exec"}),
}


class _State:
    """What one token alone does not tell: open brackets, open comments, far ends."""

    __slots__ = ("_engine", "_exec", "_openers", "_source", "_stop", "_subscripts")

    def __init__(self, source: SourceText, engine: str, stop: int) -> None:
        self._source = source
        self._engine = engine
        self._stop = stop
        self._openers = _OPENERS[engine]
        self._exec = -1
        # PostgreSQL's open brackets; True inside a subscript, where a colon makes a slice.
        self._subscripts: list[bool] = []

    def resolve(self, kind: str, begin: int, end: int, tokens: list[Token]) -> tuple[str, int]:
        """The true kind and end of a token."""
        text = self._source.text
        if kind == "punct":
            char = text[begin]
            if char in self._openers:
                raise self._source.error(f"unterminated {self._openers[char]}", begin)
            if char == "/" and text.startswith("/*", begin):
                raise self._source.error("unterminated comment", begin, begin + 2)
            if char in "([])" and self._engine == "postgres":
                self._bracket(char, tokens)
        elif kind == "param":
            if self._subscripts and self._subscripts[-1]:
                # a[:n] is a slice up to the column n.
                return "punct", begin + 1
        elif kind == "nested":
            return "block", self._comment_end(begin)
        elif kind == "dollar":
            closing = text.find(text[begin:end], end, self._stop)
            if closing < 0:
                raise self._source.error("unterminated dollar quote", begin, end)
            return "string", closing + end - begin
        elif text[begin] == "/":
            self._exec = begin
        elif self._exec < 0:
            raise self._source.error("this comment end has no beginning", begin, end)
        else:
            self._exec = -1
        return kind, end

    def finish(self) -> None:
        if self._exec >= 0:
            raise self._source.error("unterminated comment", self._exec, self._exec + 2)

    def _bracket(self, char: str, tokens: list[Token]) -> None:
        subscripts = self._subscripts
        if char in ")]":
            if subscripts:
                subscripts.pop()
            return
        before = next((token for token in reversed(tokens) if token[0] not in _BLANK), None)
        if char == "(":
            subscripts.append(False)
        elif before is None:
            subscripts.append(True)
        elif before[0] == "word":
            # ARRAY[:a, :b] holds values, every other bracket behind a word is a subscript.
            word = self._source.text[before[1] : before[2]]
            subscripts.append(word.upper() != "ARRAY")
        else:
            # The inner brackets of ARRAY[[:a], [:b]] hold values too.
            inner = self._source.text[before[1]] in "[,"
            subscripts.append(not (inner and subscripts and not subscripts[-1]))

    def _comment_end(self, begin: int) -> int:
        depth = 0
        for match in _COMMENT_END.finditer(self._source.text, begin, self._stop):
            depth += 1 if match.group() == "/*" else -1
            if depth == 0:
                return match.end()
        raise self._source.error("unterminated comment", begin, begin + 2)
