"""What an adoption leaves alone, and DeerFlow's own statements on an adopted database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import deerstore
from deerstore.repositories import (
    RunEventCreate,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from deerstore.schema import plan_upgrade, schema_status, setup_schema
from tests.schema.deerflow import OWN_TABLES, SHAPES, Client, build, rows_of, run_row

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")

COLUMNS = """
SELECT table_name, column_name, data_type, character_maximum_length, datetime_precision,
    is_nullable, column_default
FROM information_schema.columns WHERE table_schema = current_schema()
"""
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
"""

Shown = dict[tuple[str, ...], tuple[Any, ...]]


@pytest.fixture(params=[*SHAPES, *(f"{shape} without zones" for shape in SHAPES)])
def released(request: pytest.FixtureRequest, engine: str) -> str:
    if engine == "sqlite" and " " in request.param:
        pytest.skip("SQLite's times have no zone")
    return request.param


@pytest.fixture
def shape(released: str) -> str:
    return released[0]


@pytest.fixture
def client(engine: str, storage_url: str) -> Iterator[Client]:
    with Client(engine, storage_url) as opened:
        yield opened


@pytest.fixture
def adopt(released: str, shape: str, client: Client) -> None:
    build(client, shape, zoned=released == shape)


def described(client: Client) -> Shown:
    """Every column, index and constraint, in the catalog's own words."""
    if client.engine == "postgres":
        return (
            {("column", *row[:2]): row[2:] for row in client.run(COLUMNS)}
            | {("index", row[0]): row[1:] for row in client.run(INDEXES)}
            | {("constraint", *row[:2]): row[2:] for row in client.run(CONSTRAINTS)}
        )
    found: Shown = {}
    for (table,) in client.run("SELECT name FROM sqlite_master WHERE type = 'table'"):
        for _, name, *facts in client.run(f"PRAGMA table_info({table})"):
            found["column", table, name] = tuple(facts)
    for name, sql in client.run("SELECT name, sql FROM sqlite_master WHERE type = 'index'"):
        found["index", name] = (sql,)
    return found


def plain(client: Client, shape: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of DeerFlow's tables as text, as plain SQL shows it, but for those that give way.

    Which rows those are is held elsewhere.
    """
    spared = {
        "runs": "WHERE run_id NOT IN ('r2', 'r3')",
        "feedback": "WHERE feedback_id NOT IN ('f1', 'f3')",
    }
    found = {}
    for name, table in SHAPES[shape]["tables"].items():
        columns = ", ".join(f"CAST({c['name']} AS TEXT)" for c in table["columns"])
        found[name] = client.run(f"SELECT {columns} FROM {name} {spared.get(name, '')} ORDER BY 1")
    return found


@pytest.mark.usefixtures("adopt")
async def test_nothing_of_deerflows_is_altered_but_widened_integers(
    engine, released, shape, config, client
):
    before, rows = described(client), plain(client, shape)
    plan = await plan_upgrade(config)

    await setup_schema(config)

    after = described(client)
    assert plain(client, shape) == rows
    changed = {name: (was, after.get(name)) for name, was in before.items()}
    changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    for (kind, table, column), (was, now) in changed.items():
        assert kind == "column", (table, column)
        assert (engine, was[0], now[0]) == ("postgres", "integer", "bigint")
        assert was[1:] == now[1:]
        announced = [s for s in plan.statements if f"ALTER COLUMN {column} TYPE BIGINT" in s.sql]
        assert any(s.sql.startswith(f"ALTER TABLE {table}\n") for s in announced)
        assert all(s.rewrites and "REWRITTEN" in s.note for s in announced)
    kinds = {"timestamp with time zone", "timestamp without time zone"}
    (there,) = {
        facts[0]
        for name, facts in before.items()
        if engine == "postgres" and name[0] == "column" and facts[0] in kinds
    } or {""}
    assert ("without" in there) is (released != shape)
    for statement in plan.statements:
        if statement.part == "adoption":
            altered = set(re.findall(r"ALTER COLUMN .*", statement.sql.replace(",", "")))
            assert all(clause.endswith(" TYPE BIGINT") for clause in altered)
            assert statement.rewrites is bool(altered)
    added = {name: facts for name, facts in after.items() if name not in before}
    for name, facts in added.items():
        if name[0] == "column" and name[1] in SHAPES[shape]["tables"]:
            nullable = facts[3] == "YES" if engine == "postgres" else not facts[1]
            default = facts[4] if engine == "postgres" else facts[2]
            assert nullable or default is not None, name


@pytest.mark.usefixtures("adopt")
async def test_an_adopted_database_has_no_drift_and_a_second_start_changes_nothing(
    shape, config, client, caplog
):
    await setup_schema(config)
    before = (described(client), plain(client, shape))
    caplog.clear()

    report = await setup_schema(config)

    assert (report.branch, report.adopted, report.applied) == ("versioned", (), ())
    assert "drift" not in caplog.text
    assert (described(client), plain(client, shape)) == before
    status = await schema_status(config)
    assert (status.state, status.drift) == ("current", ())


KEYS = {
    "users": "id",
    "runs": "run_id",
    "run_events": "seq",
    "threads_meta": "thread_id",
    "feedback": "feedback_id",
}
CHANGES = {
    "users": ("token_version", 3),
    "runs": ("status", "success"),
    "run_events": ("content", "changed"),
    "threads_meta": ("metadata_json", '{"colour": "green"}'),
    "feedback": ("rating", -1),
}


def insert(client: Client, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" for _ in row)
    client.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


@pytest.mark.usefixtures("adopt")
async def test_deerflows_own_statements_work_afterwards_and_are_honoured(
    engine, shape, config, client, storage_url
):
    """Each table: an INSERT of the release's own columns, an UPDATE and a DELETE."""
    await setup_schema(config)
    columns = {c["name"] for c in SHAPES[shape]["tables"]["runs"]["columns"]}
    news = {
        "users": {"id": "d", "email": "Deer@Flow.org", "oauth_id": None, "oauth_provider": None},
        "runs": {"run_id": "d", "thread_id": "t9"},
        "run_events": {"seq": 30},
        "threads_meta": {"thread_id": "t9", "metadata_json": '{"colour": "red"}'},
        "feedback": {"feedback_id": "d", "run_id": "r5", "thread_id": "t2", "user_id": "u9"},
    }
    for table in OWN_TABLES:
        key = KEYS[table]
        for gone in (True, False):
            row = rows_of(engine, shape, table)[0] | news[table]
            row[key] = ("gone" if isinstance(row[key], str) else 29) if gone else row[key]
            if table == "users" and gone:
                row["email"] = "gone@flow.org"
            if table == "feedback" and gone:
                row["user_id"] = "u8"
            insert(client, table, row)
            name, value = CHANGES[table]
            client.run(f"UPDATE {table} SET {name} = ? WHERE {key} = ?", (value, row[key]))
            if gone:
                client.run(f"DELETE FROM {table} WHERE {key} = ?", (row[key],))
    old, new = (
        {k: v for k, v in run_row(engine, name, "t8", "running", time).items() if k in columns}
        for name, time in (("d-old", "12:00:00"), ("d-new", "12:00:01"))
    )
    insert(client, "runs", new)
    if shape != "E":
        insert(client, "runs", old)

    report = await setup_schema(config)

    assert (report.branch, report.adopted, report.applied) == ("versioned", (), ())
    assert [line.split()[1] for line in report.resolved if line.startswith("run ")] == (
        [] if shape == "E" else ["d-old"]
    )
    async with deerstore.open(storage_url) as persistence:
        executor = persistence.database
        user = await build_user_repository(executor).get_user_by_email("deer@FLOW.org")
        assert user is not None
        assert (user.id, user.token_version) == ("d", 3)
        runs = build_run_repository(executor)
        assert [run.run_id for run in await runs.list_runs_by_thread("t9")] == ["d"]
        inflight = [run.run_id for run in await runs.list_inflight()]
        assert ("d-new" in inflight, "d-old" in inflight) == (True, False)
        events = build_run_event_repository(executor)
        appended = await events.append(
            RunEventCreate(thread_id="t1", run_id="r1", event_type="x", category="trace")
        )
        assert appended.seq == 31
        assert (await events.list_events("t1", "r1"))[-2].content == "changed"
        threads = build_thread_meta_repository(executor)
        found = await threads.search_threads(metadata={"colour": "green"})
        assert [thread.thread_id for thread in found] == ["t9"]
        assert await threads.search_threads(metadata={"colour": "red"}) == []
        feedback = build_feedback_repository(executor)
        latest = await feedback.latest_feedback_by_run_ids("t2", ["r5"])
        assert (latest["r5"].feedback_id, latest["r5"].rating) == ("d", -1)
