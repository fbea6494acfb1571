"""Many processes that set one database up at once, and migrators that are not deerstore."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import pytest

from deerstore.schema import log, setup_schema
from deerstore.schema.migrations import load_migrations
from tests.fixtures.fix_databases import configured
from tests.schema.deerflow import Client
from tests.schema.test_crashes import ROOT, completed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.hosts import Host

PROCESSES = 6
ROUNDS = 3

YOYO = """
import sys, time, yoyo
backend = yoyo.get_backend(sys.argv[1])
with backend.lock():
    print("locked", flush=True)
    time.sleep(float(sys.argv[2]))
print("free", flush=True)
"""


class Workers:
    """Processes of `tests.schema.victim` that can be told to start at the same moment."""

    def __init__(self, count: int) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.schema.victim"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def tell(self, process: int, **job: Any) -> None:
        stdin = self.processes[process].stdin
        assert stdin is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()

    def answer(self, process: int) -> dict[str, Any]:
        stdout = self.processes[process].stdout
        assert stdout is not None
        return json.loads(stdout.readline())

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


@pytest.fixture
def workers() -> Iterator[Workers]:
    started = Workers(PROCESSES)
    yield started
    started.close()


@pytest.mark.slow
async def test_six_processes_set_up_one_empty_database_three_rounds(
    engine, host: Host, workers: Workers
):
    """All succeed, and each migration is applied by exactly one of them."""
    for _ in range(ROUNDS):
        url = host.new()
        for number in range(PROCESSES):
            workers.tell(number, url=url, bundle=True)
        answers = [workers.answer(number) for number in range(PROCESSES)]
        assert all(answer["code"] == 0 for answer in answers), answers
        applied = [name for answer in answers for name in json.loads(answer["said"])]
        assert sorted(applied) == [migration.id for migration in load_migrations(engine)]
        await completed(url)
        await _langgraph_works(url)
        host.drop(url)


async def _langgraph_works(url: str) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    import deerstore

    async with deerstore.open(url) as persistence:
        await persistence.store.aput(("a", "b"), "k", {"v": 1})
        item = await persistence.store.aget(("a", "b"), "k")
        assert item is not None
        assert item.value == {"v": 1}
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saved = await persistence.checkpointer.aput(config, empty_checkpoint(), {}, {})
        assert await persistence.checkpointer.aget_tuple(saved) is not None


async def test_the_wait_for_another_process_outlives_the_command_timeout(storage_url, host: Host):
    workers = Workers(1)
    try:
        workers.tell(0, url=storage_url, hold=2.5)
        with Client(host_engine(storage_url), storage_url) as client:
            await until_set_up(client)
        report = await setup_schema(configured(storage_url, command_timeout=0.5))
        assert report.waited > 0.5
        assert workers.answer(0)["code"] == 0
    finally:
        workers.close()


def host_engine(url: str) -> str:
    return {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql"}[url.partition(":")[0]]


async def until_set_up(client: Client) -> None:
    """Wait until the other process has applied every migration: it then holds the lock."""
    count = len(load_migrations(client.engine))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        # Until the table is there the engine's own error comes.
        with contextlib.suppress(sqlite3.Error, psycopg.Error, pymysql.Error):
            if len(client.run("SELECT migration_id FROM _yoyo_migration")) == count:
                return
        await asyncio.sleep(0.05)
    raise AssertionError("the other process did not get far")


async def test_a_cancelled_wait_leaves_nothing_behind(storage_url):
    workers = Workers(1)
    try:
        workers.tell(0, url=storage_url, hold=1.5)
        with Client(host_engine(storage_url), storage_url) as client:
            await until_set_up(client)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(setup_schema(configured(storage_url)), 0.3)
        assert workers.answer(0)["code"] == 0
    finally:
        workers.close()
    await setup_schema(configured(storage_url))


def test_a_yoyo_at_work_is_waited_for(storage_url, config):
    """yoyo's own command holds its lock row from a live process of this host."""
    yoyo = subprocess.Popen(
        [sys.executable, "-c", YOYO, config.targets.yoyo_url(), "2.5"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert yoyo.stdout is not None
    assert yoyo.stdout.readline() == "locked\n"
    started = time.monotonic()

    asyncio.run(setup_schema(configured(storage_url, command_timeout=0.5)))

    assert time.monotonic() - started > 1.5
    assert yoyo.communicate()[0] == "free\n"
    assert yoyo.returncode == 0
    asyncio.run(completed(storage_url))


@pytest.mark.parametrize("owner", ["dead process", "this process's number", "foreign host"])
async def test_the_lock_row_of_a_migrator_that_is_gone_is_recognised(
    owner, storage_url, config, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setattr(log, "STALE_AFTER", 1.0)
    await _with_yoyo_tables(config)
    # No pid of this host, of which the row of a foreign one cannot be told apart.
    pid = {
        "dead process": _dead_pid(),
        "this process's number": os.getpid(),
        "foreign host": 2**30,
    }[owner]
    with Client(config.engine, storage_url) as client:
        client.run(f"INSERT INTO yoyo_lock (locked, ctime, pid) VALUES (1, '2026-05-01', {pid})")

    started = time.monotonic()
    await setup_schema(config)

    assert 0.9 < time.monotonic() - started < 10
    assert "which is gone" in caplog.text
    await completed(storage_url)


def test_the_documented_time_for_a_stale_lock_row():
    guide = (ROOT / "docs" / "migrations.md").read_text()
    assert f"after {log.STALE_AFTER:.0f} seconds" in guide


def test_yoyos_own_command_reads_the_log(config, storage_url):
    """What deerstore applied, yoyo knows as applied."""
    import yoyo

    from deerstore.schema.migrations import migrations_folder

    asyncio.run(setup_schema(config))
    code = (
        "import sys, yoyo\n"
        "backend = yoyo.get_backend(sys.argv[1])\n"
        "todo = backend.to_apply(yoyo.read_migrations(sys.argv[2]))\n"
        "print([m.id for m in todo])\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            config.targets.yoyo_url(),
            str(migrations_folder(config.engine)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n", yoyo.__version__


@pytest.mark.slow
def test_migrations_applied_by_yoyos_own_command_are_known(config, storage_url):
    """A DBA may run the files by hand; the next start finds nothing to do."""
    from deerstore.schema.migrations import migrations_folder

    subprocess.run(
        [
            sys.executable,
            "-m",
            "yoyo",
            "apply",
            "--batch",
            "--no-config-file",
            "--database",
            config.targets.yoyo_url(),
            str(migrations_folder(config.engine)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    report = asyncio.run(setup_schema(config))

    assert (report.branch, report.applied) == ("versioned", ())


async def _with_yoyo_tables(config: Any) -> None:
    from deerstore.schema.engines import schema_engine

    engine = schema_engine(config)
    engine.create_database()
    log.MigrationLog(engine).create()
    engine.close()


def _dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
