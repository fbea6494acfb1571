"""A PostgreSQL database whose times have no zone: adopted as it is, and used like any other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deerstore
from deerstore.queries import load_queries
from deerstore.repositories import (
    FeedbackCreate,
    RunCreate,
    RunEventCreate,
    ThreadMetaCreate,
    UserCreate,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from deerstore.schema import schema_status, setup_schema
from tests.fixtures.fix_databases import configured
from tests.schema.deerflow import Client, build

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from deerstore.persistence import AppPersistence

pytestmark = pytest.mark.engines("postgres", why="only it has times with and without a zone")

OWN = Path(deerstore.__file__).parent / "sql"
TOKYO = datetime.fromisoformat("2026-05-01T19:02:30.000001+09:00")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-05-01T{text}+00:00")


@pytest.fixture
def client(engine: str, storage_url: str) -> Iterator[Client]:
    with Client(engine, storage_url) as opened:
        # What a session starts with when it does not say otherwise.
        opened.run(
            "DO $$ BEGIN EXECUTE format("
            "'ALTER DATABASE %I SET TimeZone = ''America/New_York''', current_database()"
            "); END $$"
        )
        yield opened


@pytest.fixture(params=["A", "E"])
async def persistence(request, client, storage_url) -> AsyncIterator[AppPersistence]:
    build(client, request.param, zoned=False)
    async with deerstore.open(storage_url) as opened:
        yield opened


def about_now(value: datetime | None) -> bool:
    return value is not None and abs(datetime.now(UTC) - value) < timedelta(minutes=5)


async def test_runs(client, persistence):
    runs = build_run_repository(persistence.database)
    made = await runs.create_run(
        RunCreate(run_id="n", thread_id="t7", created_time=TOKYO, lease_expires_at=TOKYO)
    )
    assert made == await runs.get_run("n")
    assert made.created_time == made.lease_expires_at == TOKYO
    (stored,) = client.run("SELECT CAST(created_at AS TEXT) FROM runs WHERE run_id = 'n'")
    assert stored == ("2026-05-01 10:02:30.000001",)
    assert [run.run_id for run in await runs.list_inflight()] == ["n", "r4", "r5"]
    assert [run.run_id for run in await runs.list_pending(before=at("10:03:00.123456"))] == [
        "n",
        "r4",
        "r5",
    ]
    assert [run.run_id for run in await runs.list_pending(before=TOKYO)] == ["n"]
    assert [run.run_id for run in await runs.list_expired_inflight()] == ["n", "r4", "r5"]
    assert not await runs.claim_expired_run("r1", error="gone")
    assert await runs.claim_expired_run("n", error="gone")
    assert about_now((await runs.get_run("n")).updated_time)

    admission = await runs.admit_run(
        RunCreate(run_id="m", thread_id="t7", owner_worker_id="w", status="pending"),
        lease_seconds=60,
    )
    expiry = admission.run.lease_expires_at
    assert timedelta(seconds=30) < expiry - datetime.now(UTC) < timedelta(seconds=90)
    assert await runs.start_run("m")
    assert not await runs.claim_expired_run("m", grace_seconds=0, error="gone")
    assert "m" not in [run.run_id for run in await runs.list_expired_inflight(grace_seconds=0)]
    assert await runs.update_run_progress("m", total_tokens=5)
    assert await runs.update_model_name("m", "model")
    assert (await runs.renew_lease("m", owner_worker_id="w", lease_seconds=0.01)).renewed
    await asyncio.sleep(0.1)
    assert "m" in [run.run_id for run in await runs.list_expired_inflight(grace_seconds=0)]
    assert await runs.request_cancel("m", action="interrupt") == "interrupt"
    assert about_now((await runs.get_run("m")).cancel_requested_at)
    assert (await runs.renew_lease("m", owner_worker_id="w", lease_seconds=9)).renewed
    assert not (await runs.finalize_run("m", status="success")).finalized
    assert await runs.update_run_completion("m", status="interrupted", total_tokens=6)
    assert [run.run_id for run in await runs.list_runs_by_thread("t7")] == ["m", "n"]
    assert [r.run_id for r in await runs.list_runs_before("t7", before_run_id="m")] == ["n"]
    interrupting = await runs.admit_run(
        RunCreate(run_id="i", thread_id="t2", multitask_strategy="interrupt"), lease_seconds=60
    )
    assert [run.run_id for run in interrupting.interrupted] == ["r5"]
    assert await runs.delete_run("i")


async def test_events(persistence):
    events = build_run_event_repository(persistence.database)

    def event(thread: str, kind: str = "x") -> RunEventCreate:
        return RunEventCreate(
            thread_id=thread, run_id="r1", event_type=kind, category="message", created_at=TOKYO
        )

    (one,) = await events.append_batch([event("t1")])
    await events.append_batch([event("t1"), event("t2")])
    first, created = await events.append_if_absent(event("t1", "once"))
    again, created_again = await events.append_if_absent(event("t1", "once"))
    assert (created, created_again, again) == (True, False, first)
    listed = await events.list_events("t1", "r1")
    assert [item.seq for item in listed] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert [item.created_at for item in listed[-3:]] == [TOKYO] * 3
    assert listed[0].created_at == at("10:00:01.123456")
    assert one == listed[6]
    assert (await events.list_messages("t1"))[-1] == first


async def test_threads(client, persistence):
    threads = build_thread_meta_repository(persistence.database)
    made = await threads.create_thread_meta(ThreadMetaCreate(thread_id="n", metadata={"k": 1}))
    assert made == await threads.get_thread_meta("n")
    assert about_now(made.created_time)
    # DeerFlow's session may have any zone; the times it writes here are UTC.
    client.run("SET TimeZone = 'America/New_York'")
    client.run(
        "INSERT INTO threads_meta (thread_id, status, metadata_json, created_at, updated_at) "
        "VALUES ('d', 'idle', '{\"k\": 1}', '2026-05-01 09:02:30', '2026-05-01 09:02:30')"
    )

    listed = await threads.search_threads()
    assert [thread.thread_id for thread in listed] == ["n", "t4", "d", "t3", "t2", "t1"]
    assert listed[2].created_time == at("09:02:30")
    assert [t.thread_id for t in await threads.search_threads(metadata={"k": 1})] == ["n", "d"]
    client.run("UPDATE threads_meta SET updated_at = '2026-05-01 09:03:30' WHERE thread_id = 'd'")
    recent = [thread.thread_id for thread in await threads.search_threads(order="recent")]
    assert recent == ["t1", "n", "d", "t4", "t3", "t2"]
    shown = client.run(
        "SELECT DISTINCT i.updated_at = t.updated_at AT TIME ZONE 'UTC', "
        "i.created_at = t.created_at AT TIME ZONE 'UTC' "
        "FROM threads_meta_index AS i JOIN threads_meta AS t ON t.thread_id = i.thread_id"
    )
    assert shown == [(True, True)]
    assert await threads.merge_thread_metadata("d", {"k": 2})
    await threads.update_thread_meta("d", display_name="name", status="busy", metadata={"k": 3})
    await threads.update_owner("d", "u")
    assert (await threads.search_threads(order="recent"))[1].thread_id == "d"
    assert await persistence.purge_thread("t1")


async def test_feedback(persistence):
    feedback = build_feedback_repository(persistence.database)

    def rating(key: str, user: str | None) -> FeedbackCreate:
        return FeedbackCreate(feedback_id=key, run_id="r1", thread_id="t1", rating=1, user_id=user)

    made = await feedback.create_feedback(rating("n", "u2"))
    assert about_now(made.created_at)
    assert made == await feedback.get_feedback("n")
    upserted = await feedback.upsert_feedback(rating("x", "u1"))
    nobody = await feedback.upsert_feedback(rating("y", None))
    assert (upserted.feedback_id, nobody.feedback_id) == ("f4", "f2")
    assert about_now(upserted.created_at)
    assert about_now(nobody.created_at)
    listed = await feedback.list_feedback_by_run("r1")
    assert [item.feedback_id for item in listed] == ["f2", "f4", "n"]
    assert (await feedback.latest_feedback_by_run_ids("t1", ["r1"]))["r1"] == nobody
    assert await feedback.delete_feedback("n")


async def test_accounts(persistence):
    users = build_user_repository(persistence.database)
    made = await users.create_user(UserCreate(id="n", email="n@x.org", created_at=TOKYO))
    assert made == await users.get_user_by_id("n") == await users.get_user_by_email("N@x.org")
    assert made.created_at == TOKYO
    assert (await users.get_first_admin()).created_at == at("08:00:00.123456")
    assert (await users.update_user(made.model_copy(update={"token_version": 2}))) is not None


async def test_every_time_is_sent_with_its_zone(client, storage_url):
    """The driver takes a parameter's type from the server, and refuses what does not fit it."""
    import asyncpg

    build(client, "E", zoned=False)
    config = configured(storage_url)
    async with deerstore.open(config):
        pass
    server = await asyncpg.connect(**config.targets.asyncpg_kwargs())
    wrong = []
    seen = 0
    for query in load_queries(OWN, engines=("postgres",)).values():
        for variant in query.variants:
            compiled = variant.compiled("postgres")
            times = {p.name for p in compiled.params if p.type.base == "timestamp"}
            for step in compiled.steps if times else ():
                statement = await server.prepare(step.sql)
                for name, kind in zip(step.order, statement.get_parameters(), strict=True):
                    seen += name in times
                    if name in times and kind.name not in ("timestamptz", "timestamptz[]"):
                        wrong.append(f"{variant!r} :{name} is {kind.name}")
    await server.close()
    assert seen > 50
    assert wrong == []


@pytest.mark.parametrize("zoned", [True, False])
@pytest.mark.parametrize(
    ("name", "choices", "index"),
    [
        ("runs.list_inflight", {"before": True}, "ix_runs_inflight"),
        ("runs.list_runs_by_thread", {}, "ix_runs_thread_created"),
        ("runs.list_runs_before", {}, "ix_runs_thread_created"),
        ("users.get_first_admin", {}, "ix_users_role_created"),
    ],
)
async def test_an_order_by_time_comes_from_its_index(
    client, storage_url, zoned, name, choices, index
):
    import asyncpg

    build(client, "E", rows=False, zoned=zoned)
    config = configured(storage_url)
    await setup_schema(config)
    query = load_queries(OWN, engines=("postgres",))[name].variant(**choices).compiled("postgres")
    server = await asyncpg.connect(**config.targets.asyncpg_kwargs())
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
        await server.execute(f"SET {setting} = off")
    values = {"before": TOKYO, "limit": 10, "offset": 0}
    (step,) = query.steps
    rows = await server.fetch(
        f"EXPLAIN {step.sql}", *(values.get(argument, "x") for argument in step.order)
    )
    await server.close()
    plan = "\n".join(row[0] for row in rows)
    assert f"using {index} " in plan
    assert "Sort" not in plan
    if "before" in choices or name.endswith("before"):
        conditions = [line for line in plan.splitlines() if "Index Cond" in line]
        assert any("created_at" in line for line in conditions), plan


async def test_a_start_behind_a_pooler_writes_utc(client, storage_url):
    """There a session keeps the database's own zone; each transaction sets its own."""
    build(client, "D", zoned=False)

    await setup_schema(configured(storage_url, pgbouncer=True))

    superseded = client.run("SELECT updated_at FROM runs WHERE run_id IN ('r2', 'r3')")
    assert len(superseded) == 2
    for (moment,) in superseded:
        assert about_now(moment.replace(tzinfo=UTC))


async def test_a_time_without_a_zone_is_drift_in_a_table_of_deerstores_own(client, config):
    build(client, "E", zoned=False)
    await setup_schema(config)
    client.run("ALTER TABLE threads_meta_index ALTER COLUMN created_at TYPE TIMESTAMP")

    status = await schema_status(config)

    (drift,) = status.drift
    assert "threads_meta_index.created_at is timestamp without time zone" in drift.message
