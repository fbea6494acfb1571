"""DeerFlow's databases, adopted in place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deerstore.schema import setup_schema
from deerstore.schema.engines import schema_engine
from deerstore.schema.migrations import load_migrations
from deerstore.schema.reconcile import SUPERSEDED
from deerstore.schema.shape import compare, read_shape
from tests.schema.deerflow import OWN_TABLES, SHAPES, Client, build, contents, run_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deerstore.config import StorageConfig
    from tests.fixtures.hosts import Host

pytestmark = pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")

HALF_MADE = {
    "no feedback table": ("feedback",),
    "no users table": ("users",),
    "only runs": ("users", "run_events", "threads_meta", "feedback", "alembic_version"),
    "no event constraint": ("uq_events_thread_seq", "ix_events_run"),
    "no feedback constraint": ("uq_feedback_thread_run_user",),
    "no e-mail index": ("ix_users_email", "idx_users_oauth_identity", "ix_runs_thread_id"),
    "no version": ("alembic_version",),
}


@pytest.fixture
def client(engine: str, storage_url: str) -> Iterator[Client]:
    with Client(engine, storage_url) as opened:
        yield opened


def shape_of(config: StorageConfig):
    engine = schema_engine(config)
    try:
        return read_shape(engine)
    finally:
        engine.close()


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_released_shape_is_adopted_with_its_rows(shape, config, client):
    """Contents are equal before and after, but for the two documented kinds of duplicates."""
    build(client, shape)
    before = contents(client, shape)

    report = await setup_schema(config)

    assert report.branch == "legacy"
    after = contents(client, shape)
    names = [c["name"] for c in SHAPES[shape]["tables"]["runs"]["columns"]]
    superseded = [] if shape == "E" else ["r2", "r3"]
    for table in before:
        if table == "feedback":
            gone = set(before[table]) - set(after[table])
            assert {row[0] for row in gone} == {"f1", "f3"}
            assert set(after[table]) <= set(before[table])
        elif table == "runs":
            for old, new in zip(before[table], after[table], strict=True):
                old_row = dict(zip(names, old, strict=True))
                new_row = dict(zip(names, new, strict=True))
                if old_row["run_id"] in superseded:
                    assert (new_row["status"], new_row["error"]) == ("error", SUPERSEDED)
                    for name in ("status", "error", "updated_at"):
                        del old_row[name], new_row[name]
                assert new_row == old_row
        else:
            assert after[table] == before[table], table
    holding = client.run("SELECT run_id FROM runs WHERE admitted ORDER BY run_id")
    assert holding == [("r4",), ("r5",)]
    assert len(report.resolved) == len(superseded) + 2 + 1, report.resolved


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_adopted_schema_equals_a_fresh_one(shape, engine, config, client, host: Host):
    """Beyond the fresh schema it has what DeerFlow added itself, and nothing else."""
    from tests.fixtures.fix_databases import configured

    build(client, shape)
    await setup_schema(config)
    fresh_url = host.new(migrated=True)
    fresh = shape_of(configured(fresh_url))
    host.drop(fresh_url)

    adopted = shape_of(config)

    assert compare(engine, adopted, load_migrations(engine)) == []
    described = SHAPES[shape]["tables"]
    for name, table in fresh.items():
        if name not in adopted:
            assert name.startswith(("checkpoint", "store", "writes")), name
            continue
        here = adopted[name]
        columns = dict(table.columns)
        if shape == "C" and name == "runs":
            # The release made the column without a default, and it is left so.
            assert here.columns["token_usage_by_model"].default is None
            del columns["token_usage_by_model"]
        for column in columns.values():
            if (engine, name, column.name) == ("postgres", "run_events", "id"):
                assert here.columns["id"].type == column.type
            else:
                assert here.columns[column.name] == column
        assert set(here.columns) == set(table.columns)
        assert here.triggers == table.triggers
        extra = set(here.indexes) - set(table.indexes)
        assert extra <= {index["name"] for index in described.get(name, {}).get("indexes", ())}
        assert {n: i for n, i in here.indexes.items() if n in table.indexes} == table.indexes


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_second_start_changes_nothing(shape, config, client):
    build(client, shape)
    await setup_schema(config)
    before = (contents(client, shape), shape_of(config), client.run("SELECT * FROM _yoyo_log"))

    report = await setup_schema(config)

    assert (report.branch, report.adopted, report.applied) == ("versioned", (), ())
    after = (contents(client, shape), shape_of(config), client.run("SELECT * FROM _yoyo_log"))
    assert after == before


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_adopted_database_still_satisfies_deerflow(shape, engine, config, client):
    """Every table, column and index of DeerFlow's description is there as it was."""
    build(client, shape)
    await setup_schema(config)

    adopted = shape_of(config)

    for name, table in SHAPES[shape]["tables"].items():
        for column in table["columns"]:
            here = adopted[name].columns[column["name"]]
            assert here.nullable is not column["notnull"]
            if engine == "sqlite":
                assert here.type == column["type"].lower()
                assert (here.default, here.key) == (column["default"], column["pk"])
        for index in table["indexes"]:
            wanted = (tuple(index["columns"]), index["unique"])
            same = [i for i in adopted[name].indexes.values() if (i.columns, i.unique) == wanted]
            primary_of_rowid = engine == "sqlite" and index["columns"] == ["id"]
            assert same or primary_of_rowid, index["name"]
            if index["origin"] == "c":
                assert index["name"] in adopted[name].indexes
    assert (
        client.run("SELECT version_num FROM alembic_version")
        == [(version,) for version in SHAPES[shape]["alembic_version"]]
        if SHAPES[shape]["alembic_version"]
        else "alembic_version" not in adopted
    )
    for name in SHAPES[shape]["other_tables"]:
        assert client.run(f"SELECT id, payload FROM {name}") == [("x", "untouched")]


@pytest.mark.parametrize("case", HALF_MADE)
@pytest.mark.parametrize("shape", ["A", "D", "E"])
async def test_a_half_made_database_is_completed(shape, case, engine, config, client):
    build(client, shape, without=HALF_MADE[case])

    await setup_schema(config)

    assert compare(engine, shape_of(config), load_migrations(engine)) == []
    report = await setup_schema(config)
    assert (report.adopted, report.applied) == ((), ())


async def test_an_empty_version_row_decides_nothing(engine, config, client):
    build(client, "E")
    client.run("DELETE FROM alembic_version")

    assert (await setup_schema(config)).branch == "legacy"

    assert client.run("SELECT version_num FROM alembic_version") == []
    assert compare(engine, shape_of(config), load_migrations(engine)) == []


async def test_a_newer_deerflow_with_unknown_columns_is_adopted(config, client):
    """Decided by columns: what is beyond them is DeerFlow's own."""
    build(client, "E")
    client.run("ALTER TABLE runs ADD COLUMN from_the_future VARCHAR(10)")
    client.run("UPDATE alembic_version SET version_num = '0099_future'")

    await setup_schema(config)

    assert "from_the_future" in shape_of(config)["runs"].columns


async def test_a_foreign_table_of_the_same_name_is_refused_untouched(config, client):
    from deerstore.errors import SchemaError

    client.run("CREATE TABLE users (login VARCHAR(10) NOT NULL PRIMARY KEY)")
    before = shape_of(config)

    with pytest.raises(SchemaError, match=r"table users that is neither.*lacks id, email"):
        await setup_schema(config)

    assert shape_of(config) == before


async def test_what_deerflow_writes_after_the_adoption_is_honoured(engine, config, client):
    """Its rows get their slot, their e-mail key and their place in the index of metadata."""
    build(client, "D", rows=False)
    await setup_schema(config)
    for row in (
        run_row(engine, "d1", "t9", "running", "10:00:00"),
        run_row(engine, "d2", "t9", "running", "10:00:01"),
        run_row(engine, "d3", "t8", "success", "10:00:01"),
    ):
        marks = ", ".join("?" for _ in row)
        client.run(f"INSERT INTO runs ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    time = "2026-05-01 10:00:00.000000" + ("" if engine == "sqlite" else "+00")
    client.run(
        "INSERT INTO users (id, email, system_role, created_at, needs_setup, token_version) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        ("u", "New@Example.org", "user", time, False, 0),
    )
    client.run(
        "INSERT INTO threads_meta (thread_id, status, metadata_json, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, ?)",
        ("t9", "idle", '{"colour": "red"}', time, time),
    )

    report = await setup_schema(config)

    assert report.branch == "versioned"
    assert client.run("SELECT run_id, status FROM runs ORDER BY run_id") == [
        ("d1", "error"),
        ("d2", "running"),
        ("d3", "success"),
    ]
    assert client.run("SELECT run_id FROM runs WHERE admitted") == [("d2",)]
    assert client.run("SELECT email, email_key FROM users") == [
        ("New@Example.org", "new@example.org")
    ]
    assert client.run("SELECT value FROM threads_meta_index WHERE term = 's:colour'") == [("red",)]

    client.run("UPDATE users SET email = 'Moved@Example.org'")
    await setup_schema(config)
    assert client.run("SELECT email_key FROM users") == [("moved@example.org",)]


@pytest.mark.engines("sqlite", why="only SQLite keeps bytes in a column of text")
async def test_an_e_mail_that_is_no_text_does_not_stop_the_start(config, client):
    await setup_schema(config)
    client.run(
        "INSERT INTO users (id, email, system_role, created_at, needs_setup, token_version) "
        "VALUES ('u', x'ff00', 'user', '2026-05-01 10:00:00.000000', 0, 0)"
    )

    await setup_schema(config)

    assert client.run("SELECT email_key FROM users") == [(None,)]


@pytest.mark.engines("sqlite", why="only SQLite keeps bytes in a column of text")
@pytest.mark.parametrize("shape", [None, "D"])
async def test_ids_that_are_no_text_do_not_stop_the_start(config, client, shape):
    if shape:
        build(client, shape)
    else:
        await setup_schema(config)
    columns = [row[1] for row in client.run("PRAGMA table_info(runs)") if row[3] and row[4] is None]
    for number, run_id in enumerate(("x'ff00'", "x'6131'", "'a1'", "x'ffff'", "'z'")):
        values = {name: "0" if name.endswith("tokens") else "'{}'" for name in columns}
        values |= {"run_id": run_id, "thread_id": "'odd'", "status": "'pending'"}
        values |= dict.fromkeys(
            ("created_at", "updated_at"), f"'2026-05-01 10:0{number}:00.000000'"
        )
        client.run(f"INSERT INTO runs ({', '.join(values)}) VALUES ({', '.join(values.values())})")
    for number, feedback_id in enumerate(("x'ff01'", "'x'", "x'ff02'") if shape else ()):
        client.run(
            "INSERT INTO feedback (feedback_id, thread_id, run_id, rating, created_at) VALUES "
            f"({feedback_id}, 'odd', 'z', 1, '2026-05-01 10:0{number}:00.000000')"
        )

    report = await setup_schema(config)

    assert client.run("SELECT run_id, status FROM runs WHERE thread_id = 'odd' ORDER BY 1") == [
        ("a1", "error"),
        ("z", "pending"),
        (b"a1", "error"),
        (b"\xff\x00", "error"),
        (b"\xff\xff", "error"),
    ]
    if shape:
        kept = client.run("SELECT feedback_id FROM feedback WHERE thread_id = 'odd'")
        assert kept == [(b"\xff\x02",)]
        assert any("feedback X'FF01'" in line for line in report.resolved)
    assert any("run X'FF00'" in line for line in report.resolved)
    again = await setup_schema(config)
    assert [line for line in again.resolved if "user" not in line] == []


async def test_an_e_mail_that_is_too_long_is_kept_and_reported_as_such(engine, config, client):
    await setup_schema(config)
    # In lower case it is longer; of the two engines only SQLite takes one that is longer itself.
    emails = ["\u0130" * 200, *(["x" * 321] if engine == "sqlite" else [])]
    for number, email in enumerate(emails):
        client.run(
            "INSERT INTO users (id, email, system_role, created_at, needs_setup, token_version) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (f"u{number}", email, "user", "2026-05-01 10:00:00.000000", False, 0),
        )

    report = await setup_schema(config)

    assert client.run("SELECT email, email_key FROM users ORDER BY id") == [
        (email, None) for email in emails
    ]
    assert len(report.resolved) == len(emails)
    for line in report.resolved:
        assert "an e-mail that is longer than 320 characters" in line


async def test_accounts_that_differ_by_case_are_kept_and_reported(config, client, caplog):
    build(client, "A")

    report = await setup_schema(config)

    assert client.run("SELECT id, email, email_key FROM users ORDER BY id") == [
        ("u-mixed", "Mixed.Case@Example.ORG", "mixed.case@example.org"),
        ("u-twin-new", "twin@EXAMPLE.org", None),
        ("u-twin-old", "Twin@example.org", "twin@example.org"),
    ]
    assert any("u-twin-new" in line for line in report.resolved)
    assert "u-twin-new" in caplog.text


@pytest.mark.engines("postgres", why="SQLite's integers have 64 bits from the start")
async def test_widening_is_one_rewrite_per_table_and_announced(config, client, caplog):
    build(client, "E")

    report = await setup_schema(config)

    widening = [sql for sql in report.adopted if "TYPE BIGINT" in sql]
    assert [sql.split()[2] for sql in widening] == ["users", "runs", "run_events", "feedback"]
    assert caplog.text.count("REWRITTEN") == len(widening)
    limit = client.run(
        "SELECT data_type FROM pg_sequences WHERE sequencename = 'run_events_id_seq'"
    )
    assert [str(row[0]) for row in limit] == ["bigint"]


@pytest.mark.parametrize("shape", ["D", "E"])
async def test_the_guides_way_back_to_deerflow_leaves_its_own_shape(shape, engine, config, client):
    build(client, shape)
    before = shape_of(config)
    await setup_schema(config)
    name = {"sqlite": "SQLite", "postgres": "PostgreSQL"}[engine]
    guide = (Path(__file__).parents[2] / "docs" / "migrations.md").read_text()
    way_back = guide.partition(f"```sql\n-- {name}\n")[2].partition("```")[0]

    for statement in filter(None, map(str.strip, way_back.split(";"))):
        client.run(statement)

    after = shape_of(config)
    assert set(after) == set(before)
    for table, columns in before.items():
        assert set(columns.columns) <= set(after[table].columns)
        added = set(after[table].indexes) - set(columns.indexes)
        assert {index for index in added if "deer" in index or "admitted" in index} == set()
        assert after[table].triggers == set()
    assert (await setup_schema(config)).branch == "legacy"


def test_the_descriptions_are_complete():
    for shape in SHAPES.values():
        assert set(OWN_TABLES) <= set(shape["tables"])
