"""Pieces of SQL with a known reading, for property tests: what they hold, and whether it counts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

#: Characters that mean something to one lexer or another, and some that mean nothing.
TEXT = st.text(alphabet="'\":`$[]/*-\\;#%?!@{}aq1 \n\té😀", max_size=12)
NAMES = st.sampled_from(["p", "run_id", "x1", "_y"])


@dataclass(frozen=True)
class Fragment:
    """`sql` is one or more whole tokens; `params` are the placeholders among them."""

    sql: str
    params: tuple[str, ...] = ()


def _without(text: str, *parts: str) -> str:
    while any(part in text for part in parts):
        for part in parts:
            text = text.replace(part, "")
    return text


def doubled(text: str, quote: str) -> str:
    """`text` between quotes, the quotes inside doubled."""
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def escaped(text: str, quote: str) -> str:
    """`text` between quotes, with backslash escapes."""
    return f"{quote}{text.replace(chr(92), chr(92) * 2).replace(quote, chr(92) + quote)}{quote}"


def dollar_quoted(text: str, tag: str) -> str:
    """`text` in a PostgreSQL dollar quote."""
    return f"${tag}${_without(text, '$')}${tag}$"


def comment(text: str) -> str:
    """`text` in a block comment that is no comment with a meaning of its own."""
    return f"/* {_without(text, '*/', '/*', '*', '/')} */"


_PLAIN = st.sampled_from(
    [
        "SELECT",
        "run_id",
        "r.status",
        "<=",
        "1.5",
        "(1 + 2)",
        ",",
        "- -1",
        "a / b * c",
        "'10:30:00'",
        "x ->> '$.a'",
        "été",
    ]
).map(Fragment)
_PARAM = NAMES.map(lambda name: Fragment(f":{name}", (name,)))
_COMMON = [
    _PLAIN,
    _PARAM,
    TEXT.map(comment).map(Fragment),
]

FRAGMENTS = {
    "sqlite": st.one_of(
        *_COMMON,
        TEXT.map(lambda text: Fragment(doubled(text, "'"))),
        TEXT.map(lambda text: Fragment(doubled(text, '"'))),
        TEXT.map(lambda text: Fragment(doubled(text, "`"))),
        TEXT.map(lambda text: Fragment(f"[{_without(text, ']')}]")),
        TEXT.map(lambda text: Fragment("--" + text.replace("\n", "") + "\n")),
    ),
    "postgres": st.one_of(
        *_COMMON,
        TEXT.map(lambda text: Fragment(doubled(text, "'"))),
        TEXT.map(lambda text: Fragment("E" + escaped(text, "'"))),
        TEXT.map(lambda text: Fragment("e" + escaped(text, "'") + "\n " + escaped(text, "'"))),
        TEXT.map(lambda text: Fragment(doubled(text, '"'))),
        TEXT.map(lambda text: Fragment(dollar_quoted(text, ""))),
        TEXT.map(lambda text: Fragment(dollar_quoted(text, "q_1"))),
        TEXT.map(lambda text: Fragment("--" + text.replace("\n", "") + "\n")),
        TEXT.map(lambda text: Fragment(f"/* {comment(text)} :p {comment(text)}*/")),
        NAMES.map(lambda name: Fragment(f":{name}::text", (name,))),
        NAMES.map(lambda name: Fragment(f"tags[:{name}]")),
        NAMES.map(lambda name: Fragment(f"tags[1:{name}]")),
        NAMES.map(lambda name: Fragment(f"tags[:{name}:{name}]")),
        NAMES.map(lambda name: Fragment(f"tags[(:{name}):2][f(:{name})]", (name, name))),
        NAMES.map(lambda name: Fragment(f"ARRAY[:{name}, 1]", (name,))),
        NAMES.map(lambda name: Fragment(f"array [[:{name}], [:{name}]]", (name, name))),
        st.sampled_from(["a ? 'b'", "a ?| b", "a ?& b", "a #>> b", "a @> b", "f(a := 1)"]).map(
            Fragment
        ),
    ),
    "mysql": st.one_of(
        *_COMMON,
        TEXT.map(lambda text: Fragment(doubled(text.replace("\\", ""), "'"))),
        TEXT.map(lambda text: Fragment(escaped(text, "'"))),
        TEXT.map(lambda text: Fragment(escaped(text, '"'))),
        TEXT.map(lambda text: Fragment(doubled(text, "`"))),
        TEXT.map(lambda text: Fragment("-- " + text.replace("\n", "") + "\n")),
        TEXT.map(lambda text: Fragment("#" + text.replace("\n", "") + "\n")),
        NAMES.map(lambda name: Fragment(f"1--:{name}", (name,))),
        NAMES.map(lambda name: Fragment(f"/*!80000 :{name} */", (name,))),
        NAMES.map(lambda name: Fragment(f"/*M!100000 '*/' :{name} */", (name,))),
        st.sampled_from(["@x := 1", "@@session.time_zone", "a % b", "'%s %'"]).map(Fragment),
    ),
}
