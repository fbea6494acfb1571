"""What was forgotten never keeps the interpreter from exiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.queries import load_queries

kept = []

async def main(url, folder, how):
    catalog = load_queries(folder)
    database = await Database.open(StorageConfig(database_url=url))
    kept.append(database)
    await database.execute(catalog["notes.create_table"])
    if how == "session":
        session = database.session()
        kept.append(session)
        await session.execute(catalog["notes.add_uncounted"], id=1, author="a")
    if how == "error":
        raise SystemExit(3)
    if how == "running":
        kept.append(asyncio.ensure_future(
            database.fetch_value(catalog["slow.read"], seconds=60.0)
        ))
        await asyncio.sleep(0.2)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("how", ["database", "session", "error", "running"])
async def test_a_forgotten_close_does_not_keep_the_interpreter(url, how, engine):
    folder = str(Path(__file__).parent / "sql")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, folder, how, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(15):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        pytest.fail("the interpreter did not exit")
    assert process.returncode == (3 if how == "error" else 0), errors.decode()
    assert errors.decode() == ""
