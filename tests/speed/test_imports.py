"""What is loaded when: the reason why importing deerstore and opening a bundle is quick."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "aiomysql",
    "aiosqlite",
    "asyncmy",
    "asyncpg",
    "langchain_core",
    "langgraph",
    "psycopg",
    "pymysql",
    "rich",
    "sqlite3",
    "typer",
    "yaml",
    "yoyo",
)


def loaded(code: str, *arguments: str) -> set[str]:
    """The heavy packages that are loaded after ``code`` in a fresh interpreter."""
    names = ", ".join(map(repr, HEAVY))
    report = f"import sys; print(*({{{names}}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


def test_importing_deerstore_loads_nothing_of_the_engines():
    assert loaded("import deerstore") == set()
    assert loaded("import deerstore; deerstore.load_queries") == set()
    assert loaded("import deerstore.errors, deerstore.repositories") == set()


def test_opening_a_sqlite_bundle_loads_no_other_engine(tmp_path):
    code = (
        "import asyncio, sys, deerstore\n"
        "async def main():\n"
        "    async with deerstore.open('sqlite:///' + sys.argv[1]): pass\n"
        "asyncio.run(main())"
    )
    path = str(tmp_path / "a.db")
    loaded(code, path)
    # A second time: there is nothing to upgrade any more.
    others = {"aiomysql", "asyncmy", "asyncpg", "psycopg", "pymysql", "rich", "typer"}
    assert loaded(code, path) & others == set()
