"""What `schema_status` and `plan_upgrade` say, and that looking changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deerstore.errors import SchemaDriftError, SchemaError, SchemaTooNewError
from deerstore.schema import plan_upgrade, schema_status, setup_schema
from tests.fixtures.fix_databases import configured
from tests.schema.deerflow import Client, build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.hosts import Host


@pytest.fixture
def client(engine: str, migrated_url: str) -> Iterator[Client]:
    with Client(engine, migrated_url) as opened:
        yield opened


async def test_a_fresh_schema_has_no_drift(migrated_config):
    found = await schema_status(migrated_config)

    assert (found.state, found.branch) == ("current", "versioned")
    assert found.version == "0006_feedback_admitted"
    assert found.drift == ()
    assert found.plan.is_empty


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("runs", "stop_reason"),
        ("run_events", "content_format"),
        ("threads_meta", "display_name"),
        ("users", "needs_setup"),
        ("run_event_counters", "last_seq"),
    ],
)
async def test_a_dropped_column_is_reported_with_the_statement_that_restores_it(
    table, column, migrated_config, client
):
    client.run(f"ALTER TABLE {table} DROP COLUMN {column}")

    found = await schema_status(migrated_config)

    assert found.state == "drift"
    assert [drift.message for drift in found.drift] == [f"column {table}.{column} is missing"]
    with pytest.raises(SchemaDriftError, match=rf"column {table}\.{column} is missing"):
        await setup_schema(migrated_config)
    await _restored(found, migrated_config, client)


@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("runs", "ix_runs_inflight"),
        ("runs", "uq_runs_admitted"),
        ("users", "uq_users_email_key"),
        ("run_events", "ix_events_run"),
        ("threads_meta_index", "ix_threads_meta_index_recent"),
    ],
)
async def test_a_dropped_index_is_reported_with_the_statement_that_restores_it(
    table, index, engine, migrated_config, client, caplog
):
    client.run(f"DROP INDEX {index}" + (f" ON {table}" if engine == "mysql" else ""))

    found = await schema_status(migrated_config)

    assert found.state == "drift"
    assert len(found.drift) == 1
    assert f"{index} on {table} is missing" in found.drift[0].message
    if (engine, index) == ("mysql", "ix_events_run"):
        # A query names it, and would fail.
        with pytest.raises(SchemaDriftError, match=rf"{index} on {table} is missing"):
            await setup_schema(migrated_config)
    else:
        # A gateway still starts: it is only slower, or less strict, and says so.
        await setup_schema(migrated_config)
        assert f"{index} on {table} is missing" in caplog.text
    await _restored(found, migrated_config, client)


@pytest.mark.engines("postgres", "mysql", why="SQLite cannot alter a column")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE runs {alter} stop_reason {type} VARCHAR(60)", "column runs.stop_reason is "),
        ("ALTER TABLE runs {alter} created_at {null}", "column runs.created_at may be NULL"),
        (
            "ALTER TABLE runs ALTER COLUMN operation_kind DROP DEFAULT",
            "column runs.operation_kind has the default none, expected 'run'",
        ),
        ("{unique}", "index ix_runs_user_id on runs is another one"),
    ],
)
async def test_an_altered_column_or_index_is_reported(
    change, message, engine, migrated_config, client
):
    postgres = engine == "postgres"
    statement = change.format(
        alter="ALTER COLUMN" if postgres else "MODIFY COLUMN",
        type="TYPE" if postgres else "",
        null="DROP NOT NULL" if postgres else "DATETIME(6) NULL",
        unique="DROP INDEX ix_runs_user_id" + ("" if postgres else " ON runs"),
    )
    client.run(statement)
    if change == "{unique}":
        client.run("CREATE INDEX ix_runs_user_id ON runs (status)")

    found = await schema_status(migrated_config)

    assert len(found.drift) == 1
    assert message in found.drift[0].message
    await _restored(found, migrated_config, client)


async def test_a_dropped_table_and_a_dropped_trigger_are_restored_with_their_rows(
    engine, migrated_config, client
):
    time = "2026-05-01 10:00:00" + ("+00" if engine == "postgres" else "")
    client.run(
        "INSERT INTO threads_meta (thread_id, status, metadata_json, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, ?)",
        ("t", "idle", '{"colour": "red"}', time, time),
    )
    client.run("DROP TABLE threads_meta_index")
    found = await schema_status(migrated_config)
    assert "table threads_meta_index is missing" in [drift.message for drift in found.drift]
    await _restored(found, migrated_config, client)

    name = _trigger(engine)
    client.run(f"DROP TRIGGER {name}" + (" ON threads_meta" if engine == "postgres" else ""))
    client.run('UPDATE threads_meta SET metadata_json = \'{"colour": "blue"}\'')
    found = await schema_status(migrated_config)
    assert [drift.message for drift in found.drift] == [
        f"trigger {name} on threads_meta is missing"
    ]
    await _restored(found, migrated_config, client)
    assert client.run("SELECT value FROM threads_meta_index WHERE term = 's:colour'") == [("blue",)]


def _trigger(engine: str) -> str:
    from deerstore.schema.migrations import load_migrations
    from deerstore.schema.shape import triggers_of

    return triggers_of("threads_meta", load_migrations(engine))[0]


async def _restored(found, config, client: Client) -> None:
    for drift in found.drift:
        for statement in drift.restore:
            assert not statement.startswith("--"), statement
            client.run(statement)
    again = await schema_status(config)
    assert again.drift == ()
    await setup_schema(config)


async def test_a_database_of_a_newer_release_is_refused_and_untouched(
    engine, migrated_config, client, migrated_url
):
    client.run(
        "INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc) "
        "VALUES ('x', '0999_from_the_future', '2027-01-01')"
    )
    client.run("ALTER TABLE runs DROP COLUMN stop_reason")
    before = _everything(engine, migrated_url, client)

    with pytest.raises(SchemaTooNewError, match="0999_from_the_future"):
        await setup_schema(migrated_config)
    with pytest.raises(SchemaTooNewError):
        await plan_upgrade(migrated_config)
    found = await schema_status(migrated_config)

    assert (found.state, found.newer) == ("newer", ("0999_from_the_future",))
    assert _everything(engine, migrated_url, client) == before


def _everything(engine: str, url: str, client: Client):
    if engine == "sqlite":
        return Path(url.removeprefix("sqlite:///")).read_bytes()
    return [
        client.run(f"SELECT * FROM {table} ORDER BY 1")
        for table in ("_yoyo_log", "_yoyo_migration", "_yoyo_version", "yoyo_lock")
    ]


async def test_looking_at_a_missing_database_creates_nothing(host: Host):
    url = host.new()
    host.drop(url)

    found = await schema_status(configured(url))
    plan = await plan_upgrade(configured(url))

    assert (found.branch, found.state) == ("missing", "pending")
    assert len(plan.statements) > 10
    assert (await schema_status(configured(url))).branch == "missing"
    if url.startswith("sqlite"):
        assert not os.path.exists(url.removeprefix("sqlite:///"))  # noqa: ASYNC240


async def test_a_missing_database_is_created(host: Host):
    url = host.new()
    host.drop(url)
    try:
        assert (await setup_schema(configured(url))).branch == "empty"
        assert (await schema_status(configured(url))).state == "current"
    finally:
        host.drop(url)


@pytest.mark.engines("sqlite", why="a folder")
async def test_a_missing_folder_is_created(tmp_path):
    url = f"sqlite:///{tmp_path}/deep/er/deerflow.db"

    await setup_schema(configured(url))

    assert (await schema_status(configured(url))).state == "current"


@pytest.mark.engines("sqlite", why="a folder")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may create any folder")
async def test_a_folder_that_cannot_be_created_says_what_to_run(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SchemaError, match="run: mkdir -p"):
        await setup_schema(configured(f"sqlite:///{tmp_path}/deep/deerflow.db"))


@pytest.mark.engines("sqlite", why="a folder")
async def test_a_file_in_the_place_of_the_folder_says_so(tmp_path):
    (tmp_path / "deep").write_text("")
    with pytest.raises(SchemaError, match=r"cannot be created \(.*\); run: mkdir -p"):
        await setup_schema(configured(f"sqlite:///{tmp_path}/deep/er/deerflow.db"))


@pytest.mark.engines("postgres", "mysql", why="roles")
async def test_a_database_that_may_not_be_created_says_what_to_run(engine, host: Host):
    url = host.new()
    host.drop(url)
    name = url.rpartition("/")[2]
    with _role(engine, host) as as_role, pytest.raises(SchemaError) as caught:
        await setup_schema(configured(as_role(url)))
    assert f"the database '{name}' does not exist" in str(caught.value)
    assert "CREATE DATABASE" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.engines("postgres", why="schemas")
async def test_a_postgres_schema_is_created_and_holds_every_table(host: Host):
    url = host.new()
    config = configured(url, postgres_schema="Deer Store")
    await setup_schema(config)
    with Client("postgres", url) as client:
        schemas = client.run(
            "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('runs', 'yoyo_lock')"
        )
    assert schemas == [("Deer Store",)]
    assert (await schema_status(config)).state == "current"
    assert (await schema_status(configured(url))).branch == "empty"
    with _role("postgres", host) as as_role, pytest.raises(SchemaError) as caught:
        await setup_schema(configured(as_role(url), postgres_schema="other"))
    assert 'CREATE SCHEMA "other" AUTHORIZATION' in str(caught.value)
    host.drop(url)


@pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")
async def test_the_plan_of_an_adoption_names_statements_locks_and_duplicates(engine, storage_url):
    with Client(engine, storage_url) as client:
        build(client, "D")
        before = client.run("SELECT feedback_id FROM feedback ORDER BY feedback_id")
        plan = await plan_upgrade(configured(storage_url))
        assert client.run("SELECT feedback_id FROM feedback ORDER BY feedback_id") == before

    assert plan.branch == "legacy"
    adoption = [statement for statement in plan.statements if statement.part == "adoption"]
    assert all(statement.note for statement in adoption)
    assert any("ADD COLUMN admitted" in statement.sql for statement in adoption)
    rewrites = [statement.sql.split()[2] for statement in adoption if statement.rewrites]
    assert rewrites == (["users", "runs", "run_events", "feedback"] if engine == "postgres" else [])
    assert len(plan.resolved) == 4
    assert plan.resolved[0].startswith("run r2 of thread t1 is running beside a newer active run")
    assert plan.resolved[2].startswith("feedback f1 of thread t1, run r1 has no user")


def _role(engine: str, host: Host):
    """A role that may connect and nothing else; gives a function that puts it into a URL."""
    from contextlib import contextmanager

    @contextmanager
    def made() -> Iterator:
        name = f"deer_role_{os.getpid()}"
        url = host.new()
        with Client(engine, url) as admin:
            if engine == "postgres":
                admin.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
                drop = f"DROP ROLE {name}"
            else:
                admin.run(f"CREATE USER {name}@'%' IDENTIFIED BY 'secret'")
                drop = f"DROP USER {name}@'%'"
            try:
                scheme, _, rest = url.partition("://")
                place = rest.rpartition("@")[2].partition("/")[0]
                yield lambda to: f"{scheme}://{name}:secret@{place}/{to.rpartition('/')[2]}"
            finally:
                admin.run(drop)
        host.drop(url)

    return made()
