"""Ratings without a user that another writer left, and databases from before they were let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import deerstore
from deerstore.repositories import FeedbackCreate, build_feedback_repository
from deerstore.schema import plan_upgrade, schema_status, setup_schema
from deerstore.schema.engines import schema_engine
from deerstore.schema.migrations import load_migrations
from deerstore.schema.shape import ActualTable, compare, read_shape
from tests.fixtures.fix_databases import configured
from tests.schema.deerflow import Client, at
from tests.schema.test_crashes import completed, victim  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.hosts import Host
    from tests.schema.test_crashes import Victim

# As the first five migrations made it.
OLD_INDEX = """
CREATE UNIQUE INDEX uq_feedback_thread_run_nobody ON feedback (thread_id, run_id)
WHERE user_id IS NULL
"""
OLD_KEY = """
ALTER TABLE feedback MODIFY COLUMN user_key VARCHAR(65) AS (
    CASE WHEN user_id IS NULL THEN '-' ELSE CONCAT('=', user_id) END
) STORED
"""
NO_COLUMN = "ALTER TABLE feedback DROP COLUMN admitted"
BEFORE = {
    "sqlite": ("DROP INDEX uq_feedback_admitted", NO_COLUMN, OLD_INDEX),
    "postgres": ("DROP INDEX uq_feedback_admitted", NO_COLUMN, OLD_INDEX),
    "mysql": (OLD_KEY, NO_COLUMN),
}


@pytest.fixture
def client(engine: str, migrated_url: str) -> Iterator[Client]:
    with Client(engine, migrated_url) as opened:
        yield opened


def rate(client: Client, key: str, time: str, run: str = "r", user: str | None = None) -> None:
    """As DeerFlow does it: without a column of deerstore's."""
    client.run(
        "INSERT INTO feedback (feedback_id, run_id, thread_id, user_id, rating, created_at) "
        "VALUES (?, ?, 't', ?, 1, ?)",
        (key, run, user, at(client.engine, time)),
    )


def admitted(client: Client) -> list[tuple[str, bool | None]]:
    rows = client.run("SELECT feedback_id, admitted FROM feedback ORDER BY feedback_id")
    return [(key, None if mark is None else bool(mark)) for key, mark in rows]


def made_before(client: Client) -> None:
    for statement in BEFORE[client.engine]:
        client.run(statement)
    for table in ("_yoyo_migration", "_yoyo_log"):
        client.run(f"DELETE FROM {table} WHERE migration_id = '0006_feedback_admitted'")


def shape_of(url: str) -> dict[str, ActualTable]:
    engine = schema_engine(configured(url))
    try:
        return read_shape(engine)
    finally:
        engine.close()


async def test_a_second_rating_without_a_user_is_taken_and_resolved_by_the_next_start(
    client, migrated_config, caplog
):
    rate(client, "f1", "10:00:00")
    rate(client, "f2", "10:00:01")
    rate(client, "f3", "10:00:00")
    rate(client, "f4", "10:00:00", user="u")
    rate(client, "f5", "10:00:00", run="r2")

    planned = await plan_upgrade(migrated_config)
    report = await setup_schema(migrated_config)

    assert [line.split()[1] for line in report.resolved] == ["f1", "f3"]
    assert planned.resolved == report.resolved
    for line in report.resolved:
        assert line in caplog.text
    assert admitted(client) == [("f2", True), ("f4", None), ("f5", True)]
    assert (await plan_upgrade(migrated_config)).is_empty
    assert (await setup_schema(migrated_config)).resolved == ()


async def test_the_newest_stays_also_beside_a_rating_of_deerstores_own(
    client, migrated_url, migrated_config
):
    async with deerstore.open(migrated_url) as persistence:
        ratings = build_feedback_repository(persistence.database)
        for key, run in (("own1", "r1"), ("own2", "r2")):
            await ratings.upsert_feedback(
                FeedbackCreate(feedback_id=key, thread_id="t", run_id=run, rating=-1)
            )
    rate(client, "old", "10:00:00", run="r1")
    client.run(
        "UPDATE feedback SET created_at = ? WHERE feedback_id = 'own2'",
        (at(client.engine, "09:00:00"),),
    )
    rate(client, "new", "10:00:00", run="r2")

    report = await setup_schema(migrated_config)

    assert [line.split()[1] for line in report.resolved] == ["old", "own2"]
    assert admitted(client) == [("new", True), ("own1", True)]


async def test_a_database_from_before_is_upgraded_and_looks_like_a_fresh_one(
    engine, client, migrated_url, migrated_config
):
    fresh = shape_of(migrated_url)
    made_before(client)
    rate(client, "f1", "10:00:00")
    rate(client, "f2", "10:00:00", user="u")
    assert (await schema_status(migrated_config)).state == "pending"
    planned = [statement.sql for statement in (await plan_upgrade(migrated_config)).statements]

    report = await setup_schema(migrated_config)

    assert report.applied == ("0006_feedback_admitted",)
    assert [sql for sql in planned if sql in report.adopted] == list(report.adopted)
    assert "ADD COLUMN admitted" in report.adopted[0]
    upgraded = shape_of(migrated_url)
    assert compare(engine, upgraded, load_migrations(engine)) == []
    assert upgraded == fresh
    assert admitted(client) == [("f1", True), ("f2", None)]
    rate(client, "f3", "10:00:01")
    assert [line.split()[1] for line in (await setup_schema(migrated_config)).resolved] == ["f1"]


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_upgrade_killed_at_every_statement_is_completed_by_the_next(
    engine,
    host: Host,
    victim: Victim,  # noqa: F811
):
    for kill_at in range(1, 100):
        url = host.new(migrated=True)
        with Client(engine, url) as client:
            made_before(client)
            rate(client, "f1", "10:00:00")
            answer = victim.ask(url=url, kill_at=kill_at)
            await completed(url)
            assert admitted(client) == [("f1", True)], answer["said"]
        host.drop(url)
        if not answer["killed"]:
            break
    assert kill_at > 8
