"""The indexes that a planner would miss by itself, and must not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from deerstore.database import Database
from deerstore.database.catalog import deerstore_queries
from deerstore.database.mysql_text import mogrify
from deerstore.repositories.statements import statement

PLACE = {"thread_id": "t", "limit": 50}


@pytest.fixture
async def database(engine, migrated_config) -> AsyncIterator[Database]:
    async with Database(migrated_config) as database:
        yield database


@pytest.mark.engines("sqlite", why="it has no statistics here; the servers plan by theirs")
@pytest.mark.parametrize(
    ("name", "variant", "params", "index"),
    [
        ("run_events.list_messages", {}, PLACE, "ix_events_thread_cat_seq"),
        (
            "run_events.list_messages",
            {"after": True},
            {**PLACE, "after_seq": 1},
            "ix_events_thread_cat_seq",
        ),
        ("run_events.list_messages_by_run", {}, {**PLACE, "run_id": "r"}, "ix_events_run"),
        ("run_events.list_events", {}, {**PLACE, "run_id": "r"}, "ix_events_run"),
        (
            "run_events.last_ai_seq_by_run",
            {},
            {"thread_id": "t", "run_ids": ["r"]},
            "ix_events_run",
        ),
        (
            "run_events.last_ai_seq_by_run",
            {"visible": True},
            {"thread_id": "t", "run_ids": ["r"]},
            "ix_events_run",
        ),
        ("runs.get_runs", {}, {"thread_id": "t", "run_ids": ["r"]}, "sqlite_autoindex_runs_1"),
        ("runs.list_runs_by_thread", {}, {**PLACE, "offset": 0}, "ix_runs_thread_created"),
        ("runs.list_runs_before", {}, {**PLACE, "before_run_id": "r"}, "ix_runs_thread_created"),
    ],
)
async def test_pages_start_at_their_index(database, name, variant, params, index):
    query = statement(name, **variant).compiled(database._connections.engine.codec)
    (args,) = query.bind(params)

    def explain(raw):
        rows = raw.execute(f"EXPLAIN QUERY PLAN {query.steps[0].sql}", args)
        return [row[3] for row in rows]

    plan = await database.on_connection(lambda c: c.apply(explain), writes=False)
    assert any(index in line for line in plan), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


@pytest.mark.engines("postgres", why="its planner takes a value for rarer than it is")
@pytest.mark.parametrize("order", ["created", "recent"])
async def test_further_filters_are_looked_up_by_the_thread(database, order):
    query = statement("metadata_match.search_threads", match="all", order=order)
    compiled = query.compiled(database._connections.engine.codec)
    params = {
        "term": "s:a",
        "number": "0",
        "value": "x",
        "literal": "",
        "float_literal": "-",
        "more_filters": "[]",
        "limit": 100,
        "offset": 0,
    }
    (args,) = compiled.bind(params)

    async def explain(connection):
        raw = connection._raw
        await raw.execute(
            "INSERT INTO threads_meta "
            "(thread_id, status, metadata_json, created_at, updated_at) "
            "SELECT 't' || n, 'idle', json_build_object('a', 'x', 'b', 'y'), now(), now() "
            "FROM generate_series(1, 1000) AS s (n); "
            "ANALYZE threads_meta_index; ANALYZE threads_meta"
        )
        return [row[0] for row in await raw.fetch(f"EXPLAIN {compiled.steps[0].sql}", *args)]

    plan = await database.on_connection(explain, writes=False)
    ((number, line),) = ((n, line) for n, line in enumerate(plan) if " other " in line)
    assert "threads_meta_index_pkey" in line, "\n".join(plan)
    # No other index can ever be chosen: neither column is part of a condition that one could take.
    assert "number" not in plan[number + 1]
    assert "number + " in plan[number + 2]


@pytest.mark.engines("mysql", why="its planner would walk the thread by another index")
@pytest.mark.parametrize(
    ("name", "bounds", "index"),
    [
        ("list_messages", {"before_seq": 500}, "ix_events_thread_cat_seq"),
        ("list_messages", {"after_seq": 500}, "ix_events_thread_cat_seq"),
        ("list_messages_by_run", {"before_seq": 500}, "ix_events_run"),
        ("list_events", {"after_seq": 500}, "ix_events_run"),
    ],
)
async def test_a_page_in_the_middle_is_a_range_of_its_index(database, name, bounds, index):
    place = PLACE if name == "list_messages" else {**PLACE, "run_id": "r"}
    variant = {bound.partition("_")[0]: True for bound in bounds}
    query = statement(f"run_events.{name}", **variant).compiled(database._connections.engine.codec)
    (args,) = query.bind({**place, **bounds})

    async def explain(connection):
        cursor = connection._cursor
        await cursor.execute(
            "INSERT INTO run_events (thread_id, run_id, event_type, category, content, "
            "event_metadata, seq, created_at) WITH RECURSIVE s (n) AS "
            "(SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900) "
            "SELECT 't', 'r', 'e', 'message', 'x', '{}', n, NOW(6) FROM s"
        )
        sql = mogrify(query.steps[0].sql, args, connection._raw)
        await cursor.execute(f"EXPLAIN {sql}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    (step,) = await database.on_connection(explain, writes=True)
    assert (step["type"], step["key"]) == ("range", index)
    assert "filesort" not in (step["Extra"] or "")


@pytest.mark.engines("mysql", why="it locks whatever its planner reads on the way")
@pytest.mark.parametrize(
    ("name", "params", "index"),
    [
        ("queue_for_thread", {"thread_id": "t"}, "ix_runs_thread_created"),
        (
            "lock_active_runs",
            {"thread_id": "t", "grace_seconds": 10},
            "ix_runs_thread_status",
        ),
        (
            "interrupt_runs",
            {"run_ids": ["r"], "error": "e", "updated_at": datetime.now(UTC)},
            "PRIMARY",
        ),
    ],
)
async def test_admission_locks_by_its_index_in_a_table_of_any_size(database, name, params, index):
    query = statement(f"runs.{name}").compiled(database._connections.engine.codec)

    async def explain(connection):
        cursor = connection._cursor
        plans = []
        for step, args in zip(query.steps, query.bind(params), strict=True):
            await cursor.execute(f"EXPLAIN {mogrify(step.sql, args, connection._raw)}")
            names = [column[0] for column in cursor.description]
            plans += [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
        return [plan["key"] for plan in plans if plan["table"] == "runs"]

    # Where there are few rows, a planner would rather read all of them.
    for rows in (0, 3, 900):
        await fill_runs(database, rows)
        used = await database.on_connection(explain, writes=True)
        assert set(used) == {index}, rows


async def fill_runs(database, count):
    async def insert(connection):
        await connection._cursor.execute(
            "INSERT IGNORE INTO runs (run_id, thread_id, status, operation_kind, "
            "multitask_strategy, metadata_json, kwargs_json, token_usage_by_model, message_count, "
            "total_input_tokens, total_output_tokens, total_tokens, llm_call_count, "
            "lead_agent_tokens, subagent_tokens, middleware_tokens, created_at, updated_at) "
            "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %s) "
            "SELECT CONCAT('r', n), 't', 'success', 'run', 'reject', '{}', '{}', '{}', "
            "0, 0, 0, 0, 0, 0, 0, 0, NOW(6), NOW(6) FROM s",
            (count,),
        )

    if count:
        await database.on_connection(insert, writes=True)


@pytest.mark.engines("sqlite", why="it has no statistics here; the servers plan by theirs")
async def test_an_owner_narrows_a_thread_and_never_drives(database):
    codec = database._connections.engine.codec
    seen = 0

    def as_adopted(raw):
        raw.execute("CREATE INDEX ix_run_events_user_id ON run_events (user_id)")

    def explain(raw, sql, args):
        return [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", args)]

    await database.on_connection(lambda connection: connection.apply(as_adopted), writes=True)
    for query in deerstore_queries().values():
        if not query.name.startswith(("runs.", "run_events.", "feedback.")):
            continue
        for variant in query.variants:
            if variant.binding.get("owner") != "on":
                continue
            seen += 1
            for step in variant.compiled(codec).steps:
                args = [None] * len(step.order)
                plan = await database.on_connection(
                    lambda connection, sql=step.sql, args=args: connection.apply(
                        lambda raw: explain(raw, sql, args)
                    ),
                    writes=False,
                )
                assert not any("user_id" in line for line in plan), (query.name, plan)
    assert seen > 30


@pytest.mark.engines("sqlite", why="it has no statistics here; the servers plan by theirs")
@pytest.mark.parametrize("plain", ["on", "off"])
async def test_the_active_runs_of_a_long_thread_are_found_by_their_status(database, plain):
    query = statement("runs.lock_active_runs", plain=plain)
    _, read = query.compiled(database._connections.engine.codec).steps

    def explain(raw):
        return [
            row[3]
            for row in raw.execute(f"EXPLAIN QUERY PLAN {read.sql}", ["t", 1.0][-len(read.order) :])
        ]

    plan = await database.on_connection(lambda connection: connection.apply(explain), writes=False)
    assert any("ix_runs_thread_status" in line or "uq_runs_admitted" in line for line in plan), plan
