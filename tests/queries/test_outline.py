"""What SQLite is asked about a statement whose columns are not declared."""

from __future__ import annotations

import pytest

from deerstore.queries import outlines

WITH = "WITH w AS ( SELECT 1 AS x ) "


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("SELECT a, '?' FROM t WHERE b = :x -- ?", ["SELECT a , '?' FROM t WHERE b = NULL"]),
        (
            "SELECT max(DISTINCT a) FROM t",
            ["SELECT max ( DISTINCT a ) FROM t", "SELECT ( a ) FROM t"],
        ),
        (
            "SELECT COALESCE(:x, MIN(f(a, 1)), b), c FROM t",
            [
                "SELECT COALESCE ( NULL , MIN ( f ( a , 1 ) ) , b ) , c FROM t",
                "SELECT ( ( f ( a , 1 ) ) ) , c FROM t",
            ],
        ),
        (
            "SELECT LAG(a) FILTER (WHERE b) OVER (ORDER BY c), MAX(d) OVER w FROM t",
            [
                "SELECT LAG ( a ) FILTER ( WHERE b ) OVER ( ORDER BY c ) , MAX ( d ) OVER w FROM t",
                "SELECT ( a ) , ( d ) FROM t",
            ],
        ),
        (
            "INSERT OR IGNORE INTO t AS u (a) VALUES (:x) RETURNING a, b",
            ["SELECT a , b FROM t AS u"],
        ),
        ("INSERT INTO t SELECT a FROM s WHERE a = :x RETURNING *", ["SELECT * FROM t"]),
        (
            "REPLACE INTO [t] DEFAULT VALUES RETURNING (SELECT :x)",
            ["SELECT ( SELECT NULL ) FROM [t]"],
        ),
        ("UPDATE OR FAIL main.t SET a = :x RETURNING a AS b", ["SELECT a AS b FROM main . t"]),
        ("DELETE FROM t WHERE a = (SELECT :x) RETURNING a", ["SELECT a FROM t"]),
        ("DELETE FROM t RETURNING a", ["SELECT a FROM t"]),
        (
            "WITH w AS (SELECT 1 AS x) UPDATE t SET a = :x FROM w RETURNING a",
            [f"{WITH}SELECT a FROM t"],
        ),
        ("PRAGMA user_version", []),
        ("EXPLAIN SELECT 1", []),
    ],
)
def test_columns_by_themselves(load, written, found):
    param = "-- param x: int\n" if ":x" in written else ""
    catalog = load(sqlite=f"-- name: q :many\n{param}{written};")
    (step,) = catalog["q"].compiled("sqlite").steps
    assert list(outlines(step)) == found
