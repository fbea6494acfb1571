"""Each rule finds what it is for and lets the near miss pass; deerstore's files are clean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import deerstore
from deerstore.queries import load_queries
from deerstore.workbench.lint import lint, main, own_catalogs

OWN = Path(deerstore.__file__).parent / "sql"


def findings(tmp_path, statement, *, header="", engine="sqlite", complete=False):
    folder = tmp_path / engine
    folder.mkdir(exist_ok=True)
    (folder / "q.sql").write_text(f"-- name: q :exec\n{header}{statement}", encoding="utf-8")
    return [finding.message for finding in lint(load_queries(tmp_path), complete=complete)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM t", ["'SELECT *' in place of the columns' names"]),
        ("SELECT a, t.* FROM t", ["'. *' in place of the columns' names"]),
        ("SELECT a, * FROM t", ["', *' in place of the columns' names"]),
        ("SELECT DISTINCT * FROM t", ["'DISTINCT *' in place of the columns' names"]),
        (
            "INSERT INTO t (a) VALUES (1) RETURNING *",
            ["'RETURNING *' in place of the columns' names"],
        ),
        ("SELECT COUNT(*), a * b, (a) * 2 FROM t", []),
        ("SELECT '*', \"*\" FROM t -- SELECT *", []),
        ("INSERT INTO t VALUES (1)", ["an INSERT that does not name its columns"]),
        ("INSERT INTO t SELECT a FROM s", ["an INSERT that does not name its columns"]),
        ("INSERT INTO t DEFAULT VALUES", ["an INSERT that does not name its columns"]),
        ("INSERT OR IGNORE INTO t (SELECT a FROM s)", ["an INSERT that does not name its columns"]),
        ("REPLACE INTO t VALUES (1)", ["an INSERT that does not name its columns"]),
        ("INSERT OR REPLACE INTO t (a) VALUES (1)", []),
        ('INSERT INTO "t" AS x (a) SELECT 1', []),
        ("SELECT a FROM t LIMIT 1", ["a LIMIT without an ORDER BY"]),
        (
            "SELECT a FROM (SELECT a FROM t ORDER BY a) AS s LIMIT 1",
            ["a LIMIT without an ORDER BY"],
        ),
        (
            "SELECT a FROM t WHERE a = (SELECT b FROM t LIMIT 1) ORDER BY a LIMIT 1",
            ["a LIMIT without an ORDER BY"],
        ),
        (
            "SELECT ROW_NUMBER() OVER (ORDER BY a) AS n FROM t LIMIT 1",
            ["a LIMIT without an ORDER BY"],
        ),
        ("SELECT a FROM t ORDER BY a LIMIT 1 OFFSET 2", []),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s LIMIT 1)", []),
        ("SELECT a FROM t FETCH FIRST 1 ROWS ONLY", ["a FETCH without an ORDER BY"]),
        ("UPDATE t SET a = 1", ["an UPDATE without a WHERE"]),
        ("DELETE FROM t", ["a DELETE without a WHERE"]),
        (
            "UPDATE t SET a = (SELECT b FROM s WHERE c = 1)",
            ["an UPDATE without a WHERE"],
        ),
        (
            "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x WHERE a = 1",
            ["a DELETE without a WHERE"],
        ),
        ("WITH x AS (SELECT 1) DELETE FROM t", ["a DELETE without a WHERE"]),
        ("UPDATE t SET a = 1 WHERE a = 2", []),
        ("INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2", []),
        ("SELECT a FROM t ORDER BY a FOR UPDATE", []),
    ],
)
def test_statements(tmp_path, statement, expected):
    for engine in ("sqlite", "postgres", "mysql"):
        if engine == "mysql" and '"' in statement:
            continue
        folder = tmp_path / engine
        folder.mkdir()
        assert findings(folder, statement, engine=engine) == expected


def test_every_variant_is_read(tmp_path):
    header = "-- variant sorted: on | off\n"
    statement = "SELECT a FROM t /*[ sorted=on */ ORDER BY a /*]*/ LIMIT 1"
    assert findings(tmp_path, statement, header=header) == ["a LIMIT without an ORDER BY"]


def columns(tmp_path, declared, statement):
    folder = tmp_path / "sqlite"
    folder.mkdir(exist_ok=True)
    lines = "".join(f"-- column {name}: text\n" for name in declared)
    (folder / "q.sql").write_text(f"-- name: q :many\n{lines}{statement}", encoding="utf-8")
    return [finding.message for finding in lint(load_queries(tmp_path))]


@pytest.mark.parametrize(
    ("declared", "statement", "expected"),
    [
        ("ab", "SELECT x.a, MAX(c, d) AS b FROM x", []),
        ("ab", 'SELECT a, "b" FROM x', []),
        ("a", "WITH y AS (SELECT q, r FROM z) SELECT a FROM y", []),
        ("ab", "UPDATE t SET c = 1 WHERE d = 2 RETURNING a, b", []),
        ("ab", "SELECT a FROM x", ["2 columns are declared, the statement gives 1"]),
        (
            "ab",
            "SELECT b, a FROM x",
            [
                "column 1 is declared as 'a', the statement calls it 'b'",
                "column 2 is declared as 'b', the statement calls it 'a'",
            ],
        ),
        ("", "SELECT a FROM x", []),
    ],
)
def test_declared_columns_are_those_of_the_statement(tmp_path, declared, statement, expected):
    assert columns(tmp_path, declared, statement) == expected


def test_completeness_is_asked_for_only_on_demand(tmp_path):
    assert findings(tmp_path, "SELECT a FROM t") == []
    assert findings(tmp_path, "SELECT a FROM t", complete=True) == [
        "no '-- doc:' line",
        "no '-- plan:' line",
    ]


def test_differences_between_engines_are_findings(tmp_path):
    for engine, cardinality in (("sqlite", "many"), ("mysql", "one")):
        (tmp_path / engine).mkdir()
        (tmp_path / engine / "q.sql").write_text(f"-- name: q :{cardinality}\nSELECT 1 AS a")
    (finding,) = lint(load_queries(tmp_path))
    assert finding.message == "differs on mysql: cardinality: :one; sqlite has :many"


def test_deerstores_own_files_are_clean():
    found = [lint(catalog, complete=True) for catalog in own_catalogs()]
    assert [str(finding) for findings in found for finding in findings] == []


def test_no_file_of_deerstores_own_is_left_out():
    read = {
        Path(source.file)
        for catalog in own_catalogs()
        for query in catalog.values()
        for source in query.sources.values()
    }
    assert read == set(OWN.rglob("*.sql"))


def test_the_command_tells_findings_by_its_exit_code(tmp_path, capsys):
    assert main([]) == 0
    assert "0 findings" in capsys.readouterr().out
    findings(tmp_path, "DELETE FROM t")
    assert main([str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"{tmp_path}/sqlite/q.sql:2: q: a DELETE without a WHERE\n"
    assert captured.out == "1 queries, 1 variants, sqlite: 1 findings\n"
    (tmp_path / "sqlite" / "q.sql").write_text("-- nmae: q :exec\nDELETE FROM t")
    assert main([str(tmp_path)]) == 1
    assert "did you mean 'name'?" in capsys.readouterr().err


def test_the_module_runs_as_a_command(tmp_path):
    findings(tmp_path, "SELECT a FROM t")
    done = subprocess.run(
        [sys.executable, "-m", "deerstore.workbench.lint", str(tmp_path), "--complete"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no '-- doc:' line" in done.stderr
