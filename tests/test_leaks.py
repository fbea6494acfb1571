"""A test that leaves something running fails: the fixture that says so is itself held to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_LEAKS = {
    "tasks left running": """
        import asyncio
        kept = []
        async def test_it():
            kept.append(asyncio.create_task(asyncio.sleep(60)))
    """,
    "threads left running": """
        import threading, time
        def test_it():
            threading.Thread(target=time.sleep, args=(10,), daemon=True).start()
    """,
    "connections left open": """
        import sqlite3
        kept = []
        def test_it(storage_url):
            kept.append(sqlite3.connect(storage_url.removeprefix("sqlite:///")))
            kept[0].execute("CREATE TABLE t (a)")
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("leak", _LEAKS)
def test_a_leak_fails_the_test(leak: str, tmp_path: Path) -> None:
    """A task, a thread or a connection that outlives its test is an error of that test."""
    lines = _LEAKS[leak].strip("\n").splitlines()
    (tmp_path / "test_leak.py").write_text("\n".join(line[8:] for line in lines))
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)),
            *("-p", "tests.fixtures.fix_engines", "--engines", "sqlite", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert leak in done.stdout, done.stdout + done.stderr
    assert "1 error" in done.stdout
