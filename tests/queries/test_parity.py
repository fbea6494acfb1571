"""Differences between engines are found one by one, and only real ones."""

from __future__ import annotations

import pytest

from deerstore.queries import parity

BASE = (
    "-- name: q :many\n-- param a: text\n-- param b: int?\n-- variant owner: off | on\n"
    "-- column id: text\n-- column n: int\n"
    "SELECT id, n FROM t WHERE a = :a /*[ owner=on */ AND b = :b /*]*/"
)


def differences(load, **texts):
    return [str(difference) for difference in parity(load(**texts))]


def test_the_same_file_differs_in_nothing(load):
    assert differences(load, sqlite=BASE, postgres=BASE, mysql=BASE) == []


def test_order_of_parameters_doc_and_number_of_statements_may_differ(load):
    other = BASE.replace(
        "-- param a: text\n-- param b: int?\n", "-- doc: x\n-- param b: int?\n-- param a: text\n"
    ).replace("SELECT", "-- step lock\nSELECT id FROM t FOR UPDATE;\n-- step read\nSELECT")
    assert differences(load, sqlite=BASE, mysql=other) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (":many", ":stream", "q (mysql): cardinality: :stream; sqlite has :many"),
        (
            "a: text",
            "a: text?",
            "q (mysql): parameters: a: text?, b: int?; sqlite has a: text, b: int?",
        ),
        (
            "column n: int",
            "column n: int?",
            "q (mysql): result columns: id: text, n: int?; sqlite has id: text, n: int",
        ),
        (
            "-- column id: text\n-- column n: int\n",
            "-- column n: int\n-- column id: text\n",
            "q (mysql): result columns: n: int, id: text; sqlite has id: text, n: int",
        ),
        (
            "off | on",
            "on | off",
            "q (mysql): variants: owner: on | off; sqlite has owner: off | on",
        ),
        (
            "owner=on",
            "owner=off",
            "q (mysql): variant owner=off needs a, b; sqlite needs a",
        ),
    ],
)
def test_a_difference_is_named(load, old, new, expected):
    assert old in BASE
    assert expected in differences(load, sqlite=BASE, mysql=BASE.replace(old, new))


def test_a_missing_query_is_a_difference_and_no_error(load):
    other = "-- name: r :value\nSELECT 1"
    assert differences(load, sqlite=BASE, mysql=other) == [
        "q (mysql): there is no such query",
        "r (sqlite): there is no such query",
    ]


def test_an_engine_that_was_not_read_is_not_compared_unless_asked_for(load):
    catalog = load(sqlite=BASE)
    assert parity(catalog) == []
    assert [difference.engine for difference in parity(catalog, engines=("sqlite", "mysql"))] == [
        "mysql"
    ]


def test_engines_with_other_variants_still_compile_each_its_own(load):
    plain = (
        BASE.replace("-- variant owner: off | on\n", "")
        .replace("/*[ owner=on */ ", "")
        .replace(" /*]*/", "")
    )
    query = load(sqlite=BASE, mysql=plain)["q"]
    assert "b = ?" in query.variant(owner=True).compiled("sqlite").steps[0].sql
    assert "b = %s" in query.variant(owner=True).compiled("mysql").steps[0].sql
