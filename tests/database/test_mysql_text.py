"""MySQL's text protocol: values as literals, and INSERTs of many rows at once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deerstore.database.mysql_text import bulk_insert, literal, mogrify


class Raw:
    """The one thing that is asked of the driver's connection."""

    def escape_string(self, text: str) -> str:
        return text.replace("\\", "\\\\").replace("'", "\\'")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"),
        (True, "1"),
        (-5, "-5"),
        (1.5, "1.5e0"),
        (1e300, "1e+300"),
        ("it's", "'it\\'s'"),
        (b"\x00'%\xff", "X'002725ff'"),
        (b"", "X''"),
        (datetime(2026, 1, 2, 3, 4, 5), "'2026-01-02 03:04:05.000000'"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "'2026-01-02 03:04:05.000006'"),
    ],
)
def test_a_value_is_written_as_a_literal(value, written):
    assert literal(value, Raw()) == written


def test_percent_signs_of_values_are_not_placeholders():
    assert mogrify("SELECT %s, '100%%', %s", ("%s", "%(x)s"), Raw()) == (
        "SELECT '%s', '100%', '%(x)s'"
    )


def many(sql: str, rows) -> list[str]:
    insert = bulk_insert(sql)
    assert insert is not None
    return list(insert.statements(rows, Raw()))


def test_rows_go_into_one_statement():
    head = "INSERT /* a.b */ INTO t (a, b) VALUES "
    tail = " ON DUPLICATE KEY UPDATE b = VALUES(b)"
    (statement,) = many(f"{head}(%s, COALESCE(%s, '(')){tail}", [(1, "x"), (2, None)])
    assert statement == f"{head}(1, COALESCE('x', '(')),(2, COALESCE(NULL, '(')){tail}"


def test_percent_signs_around_the_values_are_undoubled():
    sql = "INSERT INTO t (a) VALUES (CONCAT(%s, '%%')) /* 5%% */"
    assert many(sql, [("x",)]) == ["INSERT INTO t (a) VALUES (CONCAT('x', '%')) /* 5% */"]


def test_a_statement_stays_below_the_size_of_a_packet():
    statements = many("INSERT INTO t (a) VALUES (%s)", [("ü" * 100_000,)] * 12)
    assert len(statements) == 3
    assert all(len(statement.encode()) < 1_048_576 for statement in statements)
    assert sum(statement.count("('ü") for statement in statements) == 12


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (a) SELECT %s",
        "INSERT INTO t (a) VALUES (%s) ON DUPLICATE KEY UPDATE a = %s",
        "INSERT INTO t (a) VALUES (%s), (%s)",
        "UPDATE t SET a = %s WHERE b = 'VALUES (%s)'",
        "REPLACE INTO t SET a = %s",
        "DELETE FROM t WHERE a = %s",
    ],
)
def test_other_statements_are_left_alone(sql):
    assert bulk_insert(sql) is None
