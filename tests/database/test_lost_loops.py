"""Event loops that are closed while something is under way, and coroutines that are destroyed."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from deerstore.database.gate import WriterGate

PROGRAM = """
import asyncio, gc, sys, time
from deerstore.config import StorageConfig
from deerstore.database import Database
from deerstore.queries import load_queries

url, folder, how = sys.argv[1:]
catalog = load_queries(folder)
add = catalog["notes.add_uncounted"]
config = StorageConfig(database_url=url, acquire_timeout=5, busy_timeout=2, command_timeout=5)
kept = []

async def begin():
    database = await Database.open(config)
    await database.execute(catalog["notes.create_table"])

    async def in_session():
        async with database.session() as session:
            await session.execute(add, id=1, author="a")
            await session.commit()

    rows = [{"id": number, "author": f"a{number}"} for number in range(1, 500)]
    writing = {
        "call": lambda: database.execute(add, id=1, author="a"),
        "many": lambda: database.execute_many(add, rows),
        "session": in_session,
    }
    kept.extend((database, asyncio.ensure_future(writing[how]())))
    await asyncio.sleep(0)

async def go_on():
    async with await Database.open(config) as database:
        await database.execute(add, id=1000, author="z")

loop = asyncio.new_event_loop()
loop.run_until_complete(begin())
loop.close()
if how == "session":
    # Its transaction is open for as long as somebody holds on to it, its thread included.
    kept.clear()
    time.sleep(0.3)
    for _ in range(3):
        gc.collect()
asyncio.run(go_on())
print("went on")
"""


async def test_the_gate_is_taken_from_a_loop_that_was_closed():
    gate = WriterGate()

    def take_and_close() -> None:
        async def take() -> None:
            assert gate.take()

        loop = asyncio.new_event_loop()
        loop.run_until_complete(take())
        loop.close()

    thread = threading.Thread(target=take_and_close)
    thread.start()
    thread.join()
    assert gate.take()
    assert not gate.take()
    waiting = asyncio.ensure_future(gate.acquire(5))
    await asyncio.sleep(0)
    gate.release()
    await waiting
    gate.release()
    assert gate.take()


@pytest.mark.parametrize("how", ["call", "many", "session"])
async def test_a_loop_closed_in_the_middle_of_a_write_hinders_no_other(url: str, how: str):
    folder = str(Path(__file__).parent / "sql")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, url, folder, how),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(20):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        pytest.fail("the interpreter did not exit")
    assert output.decode().strip() == "went on", errors.decode()[-2000:]


async def test_a_destroyed_call_gives_its_connection_back(
    open_database: Any, catalog: Any, engine: str
):
    database = await open_database(pool_size=1, acquire_timeout=5, busy_timeout=2)
    await database.execute(catalog["notes.create_table"])
    add = catalog["notes.add_uncounted"]
    call = database.execute(add, id=1, author="a")
    call.send(None)
    # Writes on SQLite have a pool of their own.
    assert database.pool.in_use == (engine != "sqlite")
    call.close()
    await asyncio.sleep(0.05)
    assert database.pool.in_use == 0
    await database.execute(add, id=2, author="b")
    async with database.session() as session:
        call = session.execute(add, id=3, author="c")
        call.send(None)
        call.close()
    await asyncio.sleep(0.05)
    assert database.pool.in_use == 0
    await database.execute(add, id=4, author="d")
