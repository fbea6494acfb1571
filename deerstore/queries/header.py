"""From tokens to declared queries: header lines, steps, and where each thing stands.

A file is a sequence of queries. Each begins with ``-- name:``; the comment lines up to the first
SQL token are its header. Header lines are strict: what looks like one and is none is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn, cast

from deerstore.queries.lexer import SourceText, Token
from deerstore.queries.model import CARDINALITIES, TYPES, Cardinality, Column, Parameter, ValueType

__all__ = ["DeclaredQuery", "DeclaredStep", "Place", "near", "read_declarations"]

Place = tuple[int, int]
"""Start and end offset in the file."""

KEYS = ("name", "doc", "param", "column", "variant", "plan", "step")

# The verbs of the facade take these as keywords of their own.
_RESERVED_PARAMETERS = {"as_", "batch"}

# What people write who come from a database's own type names.
_TYPE_ALIASES = {
    "str": "text",
    "string": "text",
    "varchar": "text",
    "uuid": "text",
    "integer": "int",
    "bigint": "int",
    "number": "float",
    "double": "float",
    "real": "float",
    "numeric": "float",
    "boolean": "bool",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "time": "timestamp",
    "jsonb": "json",
    "dict": "json",
    "blob": "bytes",
    "bytea": "bytes",
    "binary": "bytes",
}

_COMMENT = re.compile(r"--([ \t]*)([A-Za-z][\w-]*)?(.*)")
_QUERY_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAMED = re.compile(r"[ \t]+([^\s:]+)[ \t]*:[ \t]*(.*?)[ \t]*")
_NAME_VALUE = re.compile(r":[ \t]*(\S+)(?:[ \t]+(\S+))?(?:[ \t]+(\S.*?))?[ \t]*")
_STEP = re.compile(r"[ \t]+(\w+)(?:[ \t]+:(\w+))?(?:[ \t]*->[ \t]*(\S.*?))?[ \t]*")
_TYPE = re.compile(r"(\w+)(\?)?(\[\])?(\?)?")


@dataclass(slots=True)
class DeclaredStep:
    """One statement as it stands in the file."""

    name: str
    place: Place
    each: bool = False
    returns: dict[str, Place] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    begins: int = -1
    """Offset of the first SQL token; -1 while there is none."""
    ends: int = -1
    """Offset of the semicolon; -1 while there is none."""


@dataclass(slots=True)
class DeclaredQuery:
    """One query as it stands in the file; each declaration with its place."""

    name: str
    cardinality: Cardinality
    place: Place
    params: dict[str, tuple[Parameter, Place]] = field(default_factory=dict)
    columns: dict[str, tuple[Column, Place]] = field(default_factory=dict)
    variants: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    doc: str = ""
    plan: str = ""
    steps: list[DeclaredStep] = field(default_factory=list)


def near(word: str, known: tuple[str, ...] | list[str], cutoff: float = 0.6) -> str | None:
    """The known word that ``word`` was probably meant to be."""
    import difflib  # only errors need it

    found = difflib.get_close_matches(word.lower(), known, n=1, cutoff=cutoff)
    return found[0] if found else None


def _did_you_mean(word: str, known: tuple[str, ...] | list[str]) -> str:
    found = near(word, known)
    return f"; did you mean {found!r}?" if found else f"; known are {', '.join(known)}"


def read_declarations(source: SourceText, tokens: list[Token]) -> list[DeclaredQuery]:
    """The queries of one file, in order, their SQL still as tokens."""
    reader = _Reader(source)
    text = source.text
    for token in tokens:
        kind, start, end = token
        if kind == "space":
            reader.keep(token)
        elif kind == "line" and not text[text.rfind("\n", 0, start) + 1 : start].strip():
            reader.comment_line(start, end)
        elif kind == "line":
            continue
        elif kind == "block" and not text.startswith(("/*[", "/*]", "/*+"), start):
            # Part of the white space around it: a comment also separates words.
            reader.keep(("space", start, end))
        else:
            reader.sql(token)
    reader.finish()
    return reader.queries


class _Reader:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.queries: list[DeclaredQuery] = []
        self.query: DeclaredQuery | None = None
        self.step: DeclaredStep | None = None
        self.prose = ""
        """The key that a free comment line goes on with: ``doc``, ``plan`` or nothing."""

    # -- SQL ---------------------------------------------------------------------------------

    def keep(self, token: Token) -> None:
        if self.step is not None and self.step.begins >= 0 and self.step.ends < 0:
            self.step.tokens.append(token)

    def sql(self, token: Token) -> None:
        kind, start, end = token
        if self.query is None:
            self.source_error("SQL before the first '-- name:' line", start, end)
        if kind == "native":
            self.source_error(
                f"{self.source.text[start:end]!r} is a driver's own placeholder; "
                "write ':name', the only one in query files",
                start,
                end,
            )
        step = self.step
        if step is None:
            step = self.step = DeclaredStep("", self.query.place)
            self.query.steps.append(step)
        if kind == "semicolon":
            if step.ends < 0:
                step.ends = start
            return
        self.prose = ""
        if step.ends >= 0:
            if kind == "block":
                self.source_error("the ';' belongs behind the last variant block", start, end)
            self.source_error(
                f"two statements in query {self.query.name!r}; "
                "begin the second one with a '-- step <name>' line",
                start,
                end,
            )
        if step.begins < 0:
            step.begins = start
        step.tokens.append(token)

    def finish(self) -> None:
        if self.query is None:
            return
        for step in self.query.steps:
            if step.begins < 0:
                what = f"step {step.name!r} of query" if step.name else "query"
                self.source_error(f"{what} {self.query.name!r} has no SQL", *step.place)
        if not self.query.steps:
            self.source_error(f"query {self.query.name!r} has no SQL", *self.query.place)

    # -- header lines ------------------------------------------------------------------------

    def comment_line(self, start: int, end: int) -> None:
        match = _COMMENT.match(self.source.text, start, end)
        if match is None or match[2] is None:
            self.prose_line(match[3].strip() if match else "")
            return
        gap, word, rest = match[1], match[2], match[3]
        place = match.span(2)
        if len(gap) >= 3 and self.prose:
            self.prose_line(f"{word}{rest}".strip())
        elif word in KEYS:
            if not gap:
                self.source_error(f"a header line begins with '-- {word}', with a blank", *place)
            self.key(word, rest, match.start(3), place)
        elif self.looks_like_key(word, rest):
            self.source_error(f"unknown header key {word!r}{_did_you_mean(word, KEYS)}", *place)
        else:
            self.prose_line(f"{word}{rest}".strip())

    def looks_like_key(self, word: str, rest: str) -> bool:
        if rest.startswith("://"):
            return False
        plain = rest.lstrip().startswith(":")
        in_header = self.query is not None and (self.step is None or self.step.begins < 0)
        if plain and in_header:
            return True
        # Elsewhere a comment may say "note:", but a mistyped key would silently become prose.
        named = re.match(r"[ \t]+\w+[ \t]*:(?!:)", rest) is not None
        return (plain or named) and near(word, KEYS, cutoff=0.75) is not None

    def prose_line(self, words: str) -> None:
        if self.query is None or not self.prose or not words:
            return
        joined = f"{getattr(self.query, self.prose)} {words}".strip()
        setattr(self.query, self.prose, joined)

    def key(self, key: str, rest: str, at: int, place: Place) -> None:
        self.prose = ""
        if key == "name":
            self.begin_query(rest, at, place)
            return
        query = self.query
        if query is None:
            self.source_error(f"'-- {key}' before the first '-- name:' line", *place)
        if key == "step":
            self.begin_step(query, rest, at, place)
            return
        if self.step is not None and self.step.begins >= 0:
            self.source_error(
                f"'-- {key}' belongs in the header, before the SQL of query {query.name!r}", *place
            )
        if key in ("doc", "plan"):
            if not rest.startswith(":"):
                self.malformed(key, f"'-- {key}: text'", place)
            self.prose = key
            self.prose_line(rest[1:].strip())
            return
        match = _NAMED.fullmatch(rest)
        if match is None:
            shape = "choice | choice" if key == "variant" else "type"
            self.malformed(key, f"'-- {key} name: {shape}'", place)
        name, value = match[1], match[2]
        name_place = (at + match.start(1), at + match.end(1))
        value_place = (at + match.start(2), max(at + match.end(2), at + match.start(2) + 1))
        if _IDENTIFIER.fullmatch(name) is None:
            self.source_error(f"{name!r} is not a name for a {key}", *name_place)
        if key == "param":
            self.param(query, name, value, name_place, value_place)
        elif key == "column":
            self.column(query, name, value, name_place, value_place)
        else:
            self.variant(query, name, value, name_place, value_place)

    def begin_query(self, rest: str, at: int, place: Place) -> None:
        self.finish()
        match = _NAME_VALUE.fullmatch(rest)
        if match is None:
            self.malformed("name", "'-- name: group.query :cardinality'", place)
        name, cardinality, more = match.groups()
        name_place = (at + match.start(1), at + match.end(1))
        if _QUERY_NAME.fullmatch(name) is None:
            self.source_error(
                f"{name!r} is not a query name; "
                "use ASCII letters, digits and '_', with dots between the parts",
                *name_place,
            )
        shown = ", ".join(f":{known}" for known in CARDINALITIES)
        if cardinality is None:
            self.source_error(f"query {name!r} has no cardinality; one of {shown}", *name_place)
        card_place = (at + match.start(2), at + match.end(2))
        if cardinality[0] != ":" or cardinality[1:] not in CARDINALITIES:
            found = near(cardinality.lstrip(":"), CARDINALITIES)
            hint = f"; did you mean ':{found}'?" if found else f"; known are {shown}"
            self.source_error(f"unknown cardinality {cardinality!r}{hint}", *card_place)
        if more is not None:
            more_at = at + match.start(3)
            self.source_error("nothing may follow the cardinality", more_at, more_at + len(more))
        self.query = DeclaredQuery(name, cast(Cardinality, cardinality[1:]), name_place)
        self.queries.append(self.query)
        self.step = None

    def begin_step(self, query: DeclaredQuery, rest: str, at: int, place: Place) -> None:
        match = _STEP.fullmatch(rest)
        if match is None:
            self.malformed(
                "step", "'-- step name', '-- step name :each' or '-- step name -> a'", place
            )
        name, mode, returns = match.groups()
        name_place = (at + match.start(1), at + match.end(1))
        if _IDENTIFIER.fullmatch(name) is None:
            self.source_error(f"{name!r} is not a name for a step", *name_place)
        if any(step.name == name for step in query.steps):
            self.source_error(f"query {query.name!r} has two steps {name!r}", *name_place)
        if mode not in (None, "each"):
            self.source_error(
                f"unknown mode {':' + mode!r} of a step; the only one is ':each'",
                at + match.start(2) - 1,
                at + match.end(2),
            )
        if self.step is not None and self.step.begins < 0:
            what = f"step {self.step.name!r} of query" if self.step.name else "query"
            self.source_error(f"{what} {query.name!r} has no SQL", *self.step.place)
        step = DeclaredStep(name, name_place, each=mode is not None)
        for found in re.finditer(r"[^,]+", returns or ""):
            begin = at + match.start(3) + found.start()
            begin += len(found[0]) - len(found[0].lstrip())
            carried = found[0].strip()
            carried_place = (begin, begin + max(1, len(carried)))
            if _IDENTIFIER.fullmatch(carried) is None:
                self.source_error(f"{carried!r} is not a name", *carried_place)
            taken = carried in query.params or carried in step.returns
            if taken or any(carried in earlier.returns for earlier in query.steps):
                self.source_error(f"the name {carried!r} is taken in this query", *carried_place)
            step.returns[carried] = carried_place
        self.step = step
        query.steps.append(step)

    def param(
        self, query: DeclaredQuery, name: str, value: str, place: Place, value_place: Place
    ) -> None:
        if name in query.params:
            self.source_error(f"parameter {name!r} is declared twice", *place)
        if name in _RESERVED_PARAMETERS:
            self.source_error(
                f"{name!r} cannot name a parameter: the facade's verbs take it themselves", *place
            )
        if any(name in step.returns for step in query.steps):
            self.source_error(f"the name {name!r} is taken in this query", *place)
        match = self.type(value, value_place)
        mark, brackets, last = match[2], match[3], match[4]
        if mark and last and not brackets:
            self.source_error(f"malformed type {value!r}; '?' stands twice", *value_place)
        kind = ValueType(
            match[1],
            nullable=bool(last) or bool(mark and not brackets),
            is_list=bool(brackets),
            element_nullable=bool(mark and brackets),
        )
        query.params[name] = (Parameter(name, kind), place)

    def column(
        self, query: DeclaredQuery, name: str, value: str, place: Place, value_place: Place
    ) -> None:
        if name in query.columns:
            self.source_error(f"column {name!r} is declared twice", *place)
        match = self.type(value, value_place)
        if match[3] or match[4]:
            self.source_error(f"a result column cannot be of type {value!r}", *value_place)
        query.columns[name] = (Column(name, match[1], bool(match[2])), place)

    def type(self, value: str, place: Place) -> re.Match[str]:
        match = _TYPE.fullmatch(value)
        if match is not None and match[1] in TYPES:
            return match
        word = re.split(r"\W", value, maxsplit=1)[0]
        if word in TYPES:
            self.source_error(
                f"malformed type {value!r}; behind {word} may stand '?' and '[]'", *place
            )
        meant = _TYPE_ALIASES.get(word.lower()) or near(word, TYPES)
        hint = f"; did you mean {meant!r}?" if meant else f"; known are {', '.join(TYPES)}"
        raise self.source.error(f"unknown type {value!r}{hint}", *place)

    def variant(
        self, query: DeclaredQuery, name: str, value: str, place: Place, value_place: Place
    ) -> None:
        if name in query.variants:
            self.source_error(f"variant {name!r} is declared twice", *place)
        choices = tuple(choice.strip() for choice in value.split("|"))
        if len(choices) < 2 or len(set(choices)) < len(choices):
            self.source_error(
                f"variant {name!r} needs two or more different choices with '|' between them",
                *value_place,
            )
        for choice in choices:
            if _IDENTIFIER.fullmatch(choice) is None:
                self.source_error(f"{choice!r} is not a choice of a variant", *value_place)
        query.variants[name] = (choices, place)

    # -- errors ------------------------------------------------------------------------------

    def malformed(self, key: str, shape: str, place: Place) -> NoReturn:
        self.source_error(
            f"malformed '-- {key}' line; it is written {shape} "
            "(a free comment may not begin with a header key)",
            *place,
        )

    def source_error(self, message: str, start: int, end: int) -> NoReturn:
        raise self.source.error(message, start, end)
