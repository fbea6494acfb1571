"""What the repository tests share: hostile ids, rows of other writers, other processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql
import pytest

from deerstore.database import Database
from tests.fixtures.fix_databases import configured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

#: Ids that some collation, padding or escaping takes for one another.
HOSTILE_IDS = [
    "a",
    "A",
    "á",
    "a ",
    " a",
    "a\t",
    "a%",
    "a_",
    "a'b",
    'a"b',
    "a\\b",
    "a:b",
    "ﬀ",
    "ff",
    "ß",
    "SS",
    "ı",
    "😀",
    "e\u0301",
    "é",
    "",
]


@pytest.fixture
def raw_sql(migrated_url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Another writer on the same database: `raw_sql(sql with %s, *values)`, committed at once."""
    connection = _connect(migrated_url)

    def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if migrated_url.startswith("sqlite"):
            sql = sql.replace("%s", "?")
        cursor = connection.cursor()
        try:
            cursor.execute(sql, values)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        finally:
            cursor.close()
        return rows

    yield run
    connection.close()


@pytest.fixture
async def other(migrated_url: str) -> AsyncIterator[Database]:
    """A second bundle's database over the same data."""
    opened = await Database.open(configured(migrated_url))
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture
def race(migrated_url: str) -> Callable[..., list[Any]]:
    """Run `tests.repositories.racers` in several processes at once; what each of them says."""

    def run(task: str, arguments: Sequence[Any]) -> list[Any]:
        racers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.repositories.racers", task, migrated_url],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in arguments
        ]
        try:
            for racer in racers:
                assert racer.stdout is not None
                line = racer.stdout.readline()
                assert line == "ready\n", racer.communicate(timeout=10)
            for racer, argument in zip(racers, arguments, strict=True):
                assert racer.stdin is not None
                racer.stdin.write(json.dumps(argument) + "\n")
                racer.stdin.flush()
            said = []
            for racer in racers:
                out, err = racer.communicate(timeout=60)
                assert racer.returncode == 0, err
                said.append(json.loads(out))
            return said
        finally:
            for racer in racers:
                if racer.poll() is None:
                    racer.kill()
                    racer.communicate()

    return run


def _connect(url: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        import sqlite3

        return sqlite3.connect(url.partition("///")[2], timeout=30)
    if parts.scheme.startswith("postgres"):
        return psycopg.connect(url, options="-c timezone=UTC")
    return pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/"),
        charset="utf8mb4",
        init_command="SET time_zone = '+00:00'",
    )
