"""The indexes that SQLite's planner would miss by itself: it keeps no statistics here."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from deerstore.database import Database
from deerstore.repositories.statements import statement

pytestmark = pytest.mark.engines("sqlite", why="the servers plan by their statistics")

PLACE = {"thread_id": "t", "limit": 50}


@pytest.fixture
async def database(engine, migrated_config) -> AsyncIterator[Database]:
    async with Database(migrated_config) as database:
        yield database


@pytest.mark.parametrize(
    ("name", "variant", "params", "index"),
    [
        ("list_messages", {}, PLACE, "ix_events_thread_cat_seq"),
        ("list_messages", {"after": True}, {**PLACE, "after_seq": 1}, "ix_events_thread_cat_seq"),
        ("list_messages_by_run", {}, {**PLACE, "run_id": "r"}, "ix_events_run"),
        ("list_events", {}, {**PLACE, "run_id": "r"}, "ix_events_run"),
        ("last_ai_seq_by_run", {}, {"thread_id": "t", "run_ids": ["r"]}, "ix_events_run"),
        (
            "last_ai_seq_by_run",
            {"visible": True},
            {"thread_id": "t", "run_ids": ["r"]},
            "ix_events_run",
        ),
    ],
)
async def test_pages_of_events_start_at_their_index(database, name, variant, params, index):
    query = statement(f"run_events.{name}", **variant).compiled(database._connections.engine.codec)
    (args,) = query.bind(params)

    def explain(raw):
        rows = raw.execute(f"EXPLAIN QUERY PLAN {query.steps[0].sql}", args)
        return [row[3] for row in rows]

    plan = await database.on_connection(lambda c: c.apply(explain), writes=False)
    assert any(index in line for line in plan), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan
