"""The lexer, against pieces of SQL whose reading is known and against SQLite itself."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deerstore.errors import QueryFileError
from deerstore.queries.lexer import SourceText, tokenize
from tests.queries.fragments import (
    FRAGMENTS,
    NAMES,
    TEXT,
    Fragment,
    comment,
    doubled,
)

ENGINES = ("sqlite", "postgres", "mysql")


def placeholders(sql: str, engine: str) -> list[str]:
    source = SourceText(sql, "x.sql")
    return [
        sql[start + 1 : end] for kind, start, end in tokenize(source, engine) if kind == "param"
    ]


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(deadline=None)
@given(data=st.data())
def test_only_placeholders_outside_quotes_and_comments_are_found(engine_name, data):
    fragments: list[Fragment] = data.draw(st.lists(FRAGMENTS[engine_name], max_size=8))
    sql = " ".join(fragment.sql for fragment in fragments)
    expected = [name for fragment in fragments for name in fragment.params]
    assert placeholders(sql, engine_name) == expected


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(deadline=None)
@given(sql=st.text(alphabet="'\":`$[]()/*-\\;#%?!M8@aE,. \n\té", max_size=40))
@example(sql="/*/*/")
@example(sql="$$$")
@example(sql="'\\")
def test_tokens_tile_any_text_or_it_is_refused_at_a_place_inside_it(engine_name, sql):
    source = SourceText(sql, "x.sql")
    refusal = None
    tokens = []
    try:
        tokens = tokenize(source, engine_name)
    except QueryFileError as error:
        refusal = error
    if refusal is None:
        assert "".join(sql[start:end] for _, start, end in tokens) == sql
        assert all(start < end for _, start, end in tokens)
        return
    lines = sql.split("\n")
    assert 1 <= refusal.line <= len(lines)
    assert 1 <= refusal.column <= len(lines[refusal.line - 1])
    assert "unterminated" in refusal.reason or "no beginning" in refusal.reason


# sqlite3 of Python 3.12.0 to 3.12.3 takes ?1 for a name.
@pytest.mark.filterwarnings("ignore:Binding:DeprecationWarning")
@settings(deadline=None)
@given(name=NAMES, first=TEXT, second=TEXT, alias=TEXT.filter(bool))
def test_sqlite_reads_what_is_left_as_the_lexer_does(name, first, second, alias):
    """SQLite is the oracle: with `:name` made a number, the strings come back unharmed."""
    literals = doubled(first, "'"), doubled(second, "'")
    rest_of_line = second.partition("\n")[0]
    sql = (
        f"SELECT {literals[0]} AS {doubled(alias, chr(34))} {comment(second)}, :{name}, "
        f"--{rest_of_line}\n {literals[1]}, :{name}"
    )
    source = SourceText(sql, "x.sql")
    numbered = "".join(
        "?1" if kind == "param" else sql[start:end]
        for kind, start, end in tokenize(source, "sqlite")
    )
    connection = sqlite3.connect(":memory:")
    try:
        cursor = connection.execute(numbered, ("value",))
        assert cursor.fetchone() == (first, "value", second, "value")
        assert cursor.description[0][0] == alias
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("engine_name", "sql", "expected"),
    [
        # A double dash without white space behind it is two minus signs on MySQL only.
        ("mysql", "1 --:p", ["p"]),
        ("postgres", "1 --:p", []),
        ("sqlite", "1 --:p", []),
        ("mysql", "1 --\t:p", []),
        # A hash begins a comment on MySQL only.
        ("mysql", "1 # :p", []),
        ("postgres", "a #> :p", ["p"]),
        # A backslash escapes on MySQL, and in PostgreSQL's E strings.
        ("mysql", r"'\' :p ' , :q", ["q"]),
        ("mysql", r'"\" :p " , :q', ["q"]),
        ("postgres", r"'\' , :p", ["p"]),
        ("postgres", r"E'\' :p ' , :q", ["q"]),
        ("postgres", r"nameE'\' , :p", ["p"]),
        ("sqlite", r"'\' , :p", ["p"]),
        # PostgreSQL's comments nest, the others' end at the first end.
        ("postgres", "/* /* */ :p */ :q", ["q"]),
        ("sqlite", "/* /* */ :p", ["p"]),
        ("mysql", "/* /* */ :p", ["p"]),
        # A dollar inside a name begins no quote.
        ("postgres", "a$b$ :p", ["p"]),
        ("postgres", "$b$ :p $b$", []),
        ("postgres", "$b$ $$ :p $c$ $b$ :q", ["q"]),
        # Brackets quote on SQLite, and slice on PostgreSQL.
        ("sqlite", "[a :p]", []),
        ("postgres", "a[1:2], a[:p], a[:2], a[1:]", []),
        ("postgres", "(a)[:p]", []),
        ("postgres", "ARRAY[:p]", ["p"]),
        ("postgres", "a[(:p)]", ["p"]),
        ("postgres", "'{}'::text[] || :p::text[]", ["p"]),
        ("mysql", "@a := :p", ["p"]),
        ("postgres", "f(a := :p, b => :q)", ["p", "q"]),
        ("postgres", "a ? 'b' AND a ?| :p", ["p"]),
        ("mysql", "/*!80000 :p */ :q", ["p", "q"]),
        ("mysql", "/*+ MAX_EXECUTION_TIME(:p) */ :q", ["q"]),
        ("mysql", "`a :p``` :q", ["q"]),
        ("sqlite", "LIMIT:p", ["p"]),
    ],
)
def test_engines_differ_in_what_they_quote(engine_name, sql, expected):
    assert placeholders(sql, engine_name) == expected


@pytest.mark.parametrize("engine_name", ENGINES)
def test_time_grows_with_the_length_only(engine_name):
    """No pattern backtracks: half a megabyte of quotes and stars is read at once."""
    text = "SELECT 1 " + "'" + "''" * 250_000
    with pytest.raises(QueryFileError, match="unterminated string"):
        tokenize(SourceText(text, "x.sql"), engine_name)
