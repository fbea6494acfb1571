"""`kill -9` anywhere in a setup, and a step that fails: the next start completes the work."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import SchemaError
from deerstore.schema import setup, setup_schema
from deerstore.schema.engines import schema_engine
from deerstore.schema.migrations import load_migrations
from deerstore.schema.shape import ActualTable, compare, read_shape
from tests.fixtures.fix_databases import configured
from tests.schema.deerflow import Client, build, contents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deerstore.config import StorageConfig
    from tests.fixtures.hosts import Host

ROOT = Path(__file__).parents[2]
MOMENTS = 16


class Victim:
    """The process of `tests.schema.victim`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.schema.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, **job: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def victim() -> Iterator[Victim]:
    started = Victim()
    yield started
    started.close()


async def completed(url: str) -> None:
    """Set a database up, and hold it to the present schema and a log without duplicates."""
    config = configured(url)
    await setup_schema(config)
    engine = schema_engine(config)
    try:
        assert compare(engine.name, read_shape(engine), load_migrations(engine.name)) == []
        known = [migration.id for migration in load_migrations(engine.name)]
        for table in ("_yoyo_migration", "_yoyo_log"):
            ids = engine.run(f"SELECT migration_id FROM {table} ORDER BY migration_id")
            assert [name for (name,) in ids] == known, table
        assert engine.run("SELECT pid FROM yoyo_lock") == []
        assert engine.run("SELECT version FROM _yoyo_version") == [(2,)]
    finally:
        engine.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_first_start_killed_at_every_statement_is_completed_by_the_next(
    engine, host: Host, victim: Victim
):
    killed = await _kill_at(host, victim, range(1, 500), outside=True)
    assert killed > 15
    if engine != "mysql":
        # Inside a transaction every point leaves the same behind; MySQL has none around DDL.
        await _kill_at(host, victim, range(5, 500, 11))


async def _kill_at(host: Host, victim: Victim, points: range, **job: Any) -> int:
    for kill_at in points:
        url = host.new()
        answer = victim.ask(url=url, kill_at=kill_at, **job)
        if answer["killed"]:
            await completed(url)
        host.drop(url)
        if not answer["killed"]:
            assert answer["code"] == 0, answer["said"]
            return kill_at
    raise AssertionError("a setup of more than 500 statements")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")
@pytest.mark.parametrize("shape", ["A", "E"])
async def test_an_adoption_killed_at_every_statement_is_completed_by_the_next(
    shape, engine, host: Host, victim: Victim
):
    """Rows are intact, and the duplicates are resolved once, as without a crash."""
    url = host.new()
    with Client(engine, url) as client:
        build(client, shape)
        await completed(url)
        expected = _without_times(contents(client, shape))
    host.drop(url)
    survived = 0
    for kill_at in range(1, 500):
        url = host.new()
        with Client(engine, url) as client:
            build(client, shape)
            answer = victim.ask(url=url, kill_at=kill_at, outside=True)
            if answer["killed"]:
                await completed(url)
                assert _without_times(contents(client, shape)) == expected, answer["said"]
                survived += 1
        host.drop(url)
        if not answer["killed"]:
            assert answer["code"] == 0, answer["said"]
            break
    assert survived > 25


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_bundles_setup_killed_at_any_time_is_completed_by_the_next(
    host: Host, victim: Victim
):
    """LangGraph's tables end as those of a setup that nobody disturbed."""
    url = host.new()
    started = time.monotonic()
    assert victim.ask(url=url, bundle=True)["code"] == 0
    seconds = time.monotonic() - started
    expected = _shape(url)
    host.drop(url)
    killed = 0
    for moment in range(1, MOMENTS):
        url = host.new()
        answer = victim.ask(url=url, bundle=True, kill_after=seconds * moment / MOMENTS)
        killed += answer["killed"]
        again = victim.ask(url=url, bundle=True)
        assert again["code"] == 0, again["said"]
        assert _shape(url) == expected
        await completed(url)
        host.drop(url)
    assert killed


def _shape(url: str) -> dict[str, ActualTable]:
    engine = schema_engine(configured(url))
    try:
        return read_shape(engine)
    finally:
        engine.close()


def _without_times(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    # A superseded run is updated at the time of the start.
    return {
        name: [tuple(value for value in row if not _is_time(value)) for row in rows]
        for name, rows in found.items()
    }


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) or bool(re.match(r"\d{4}-\d\d-\d\d ", str(value)))


async def test_a_failing_step_names_itself_and_the_engines_message(
    engine, config: StorageConfig, storage_url, monkeypatch: pytest.MonkeyPatch
):
    """The next start, with the migration mended, completes."""

    def broken(name: Any) -> Any:
        migrations = list(load_migrations(name))
        middle = migrations[2]
        statements = list(middle.statements)
        statements.insert(1, "CREATE INDEX nowhere ON no_such_table (x)")
        migrations[2] = dataclasses.replace(middle, statements=tuple(statements))
        return tuple(migrations)

    monkeypatch.setattr(setup, "load_migrations", broken)
    with pytest.raises(SchemaError) as caught:
        await setup_schema(config)
    monkeypatch.undo()

    message = str(caught.value)
    assert message.startswith("migration 0003_run_events, step 2 of ")
    assert "(CREATE INDEX nowhere ON no_such_table (x))" in message
    own = {
        "sqlite": "no such table",
        "postgres": "does not exist (SQLSTATE 42P01)",
        "mysql": "doesn't exist (1146)",
    }[engine]
    assert own in message
    assert caught.value.__cause__ is not None
    await completed(storage_url)


@pytest.mark.engines("postgres", why="only PostgreSQL leaves an invalid index behind")
async def test_an_index_whose_build_was_cut_off_is_built_again(config, storage_url):
    with Client("postgres", storage_url) as client:
        build(client, "D")
        client.run("ALTER TABLE feedback ADD COLUMN admitted BOOLEAN")
        # What the table holds now stands for what it held when the build was cut off.
        client.run("UPDATE feedback SET admitted = TRUE")
        with pytest.raises(Exception, match="could not create unique index"):
            client.run(
                "CREATE UNIQUE INDEX CONCURRENTLY uq_feedback_admitted "
                "ON feedback (admitted, thread_id, run_id) WHERE user_id IS NULL"
            )
        client.run("UPDATE feedback SET admitted = NULL")

    await completed(storage_url)
