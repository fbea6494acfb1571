"""Whatever a statement is made of, the driver gets it token by token, placeholders apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerstore.queries.compiler import compile_query
from deerstore.queries.header import read_declarations
from deerstore.queries.lexer import SourceText, tokenize
from tests.queries.fragments import FRAGMENTS

HEADER = (
    "-- name: q :exec\n-- param p: text\n-- param run_id: text\n-- param x1: text\n"
    "-- param _y: text\n-- variant some: off | on\n"
)
EVERY = "SELECT :p, :run_id, :x1, :_y"
BLANK = ("space", "line", "block")


def words(text: str, engine: str) -> list[str]:
    tokens = tokenize(SourceText(text, "x.sql"), engine)
    return [text[start:end] for kind, start, end in tokens if kind not in BLANK]


def rendered(text: str, engine: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    source = SourceText(text, "x.sql")
    (query,) = read_declarations(source, tokenize(source, engine))
    definition = compile_query(source, engine, query)
    return {
        dict(binding)["some"]: (template.steps[0].sql, template.steps[0].order)
        for binding, template in definition.templates.items()
    }


def restored(sql: str, order: tuple[str, ...], engine: str) -> str:
    """The driver's text with `:name` for its placeholders; `order` says which is which."""
    names = iter(order)
    if engine == "mysql":
        return re.sub(r"%(%|s)", lambda m: "%" if m[1] == "%" else f":{next(names)}", sql)
    parts = []
    for kind, start, end in tokenize(SourceText(sql, "x.sql"), engine):
        token = sql[start:end]
        if kind == "native":
            token = f":{order[int(token[1:]) - 1]}" if engine == "postgres" else f":{next(names)}"
        parts.append(token)
    return "".join(parts)


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres", "mysql"])
@settings(deadline=None)
@given(data=st.data())
def test_nothing_but_placeholders_and_white_space_changes(engine_name, data):
    fragments = st.lists(FRAGMENTS[engine_name], max_size=4)
    before, inside, after = (
        " ".join(fragment.sql for fragment in data.draw(fragments)) for _ in range(3)
    )
    # The commas keep two strings in neighbouring parts from being one over a line break.
    text = f"{HEADER}{EVERY} {before}\n/*[ some=on */ , {inside}\n/*]*/ , {after}\n;"
    expected = {"on": f"{before}\n, {inside}\n, {after}", "off": f"{before}\n, {after}"}
    shown = rendered(text, engine_name)
    for choice, body in expected.items():
        sql, order = shown[choice]
        assert words(restored(sql, order, engine_name), engine_name) == words(
            f"{EVERY} {body}", engine_name
        )
        assert "/* q */" in sql


@pytest.mark.parametrize("between", ["/* \n */", "\n/* a */\n", "-- a\n/* b */", "/* a */ -- b\n"])
def test_a_comment_between_two_strings_does_not_make_them_one(between):
    text = f"{HEADER}{EVERY} E'a' {between} 'b'\n/*[ some=on */ , 1\n/*]*/ ;"
    sql, order = rendered(text, "postgres")["off"]
    expected = words(f"{EVERY} E'a' {between} 'b'", "postgres")
    assert words(restored(sql, order, "postgres"), "postgres") == expected
