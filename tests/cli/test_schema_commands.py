"""The command line of the schema and of recovery: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deerstore.cli import main
from tests.schema.deerflow import Client, build

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def client(engine: str, storage_url: str) -> Iterator[Client]:
    with Client(engine, storage_url) as opened:
        yield opened


def test_an_upgrade_is_shown_then_done_then_not_needed(storage_url, capsys):
    url = ["--url", storage_url]

    assert main(["schema", "status", *url]) == 3
    assert "an upgrade is pending" in capsys.readouterr().out
    assert main(["schema", "upgrade", "--dry-run", *url]) == 3
    assert "Nothing was done." in capsys.readouterr().out
    assert main(["schema", "status", *url]) == 3
    capsys.readouterr()

    assert main(["schema", "upgrade", *url]) == 0
    assert "Applied 0001_users, " in capsys.readouterr().out

    assert main(["schema", "status", *url]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["schema", "upgrade", "--dry-run", *url]) == 0
    assert capsys.readouterr().out == "Nothing to do.\n"


def test_the_printed_script_makes_the_schema_by_hand(engine, storage_url, client, capsys):
    """Each statement of the script is one that any client can send."""
    import sqlparse

    assert main(["schema", "sql", "--url", storage_url]) == 0
    script = capsys.readouterr().out

    for statement in sqlparse.split(script):
        bare = sqlparse.format(statement, strip_comments=True).strip()
        if bare:
            client.run(statement)

    assert main(["schema", "upgrade", "--url", storage_url, "--json"]) == 0
    assert main(["schema", "status", "--url", storage_url]) == 0


def test_the_whole_schema_is_printed_without_a_database(engine, storage_url, capsys):
    assert main(["schema", "sql", "--all", "--url", storage_url]) == 0

    script = capsys.readouterr().out
    for table in ("users", "runs", "run_events", "threads_meta", "feedback"):
        assert f"CREATE TABLE IF NOT EXISTS {table}" in script


@pytest.mark.engines("postgres", why="only PostgreSQL has schemas in a database")
def test_the_script_fills_the_configured_schema(storage_url, client, tmp_path, capsys):
    """A shell's own search path leads to public."""
    config = tmp_path / "config.yaml"
    config.write_text(
        f"storage:\n  database_url: {json.dumps(storage_url)}\n  postgres_schema: Team A\n"
    )
    for everything in (["--all"], []):
        assert main(["schema", "sql", *everything, "--config", str(config)]) == 0
        client.run(capsys.readouterr().out)

    assert main(["schema", "upgrade", "--config", str(config)]) == 0
    assert main(["schema", "status", "--config", str(config)]) == 0
    assert main(["schema", "status", "--url", storage_url]) == 3
    assert "Found     empty" in capsys.readouterr().out


def test_drift_is_shown_with_what_restores_it(engine, migrated_url, capsys):
    with Client(engine, migrated_url) as client:
        client.run("ALTER TABLE runs DROP COLUMN stop_reason")

    assert main(["schema", "status", "--url", migrated_url]) == 4
    shown = capsys.readouterr().out
    assert "column runs.stop_reason is missing" in shown
    assert "ALTER TABLE runs ADD COLUMN stop_reason VARCHAR(50);" in shown
    assert main(["schema", "upgrade", "--url", migrated_url]) == 1
    assert "column runs.stop_reason is missing" in capsys.readouterr().err


def test_a_newer_database_has_a_code_of_its_own(engine, migrated_url, capsys):
    with Client(engine, migrated_url) as client:
        client.run(
            "INSERT INTO _yoyo_migration (migration_hash, migration_id) VALUES ('x', '0999_new')"
        )

    assert main(["schema", "status", "--url", migrated_url]) == 5
    assert "unknown migration 0999_new" in capsys.readouterr().out
    assert main(["schema", "upgrade", "--url", migrated_url]) == 5
    assert "newer release" in capsys.readouterr().err


@pytest.mark.engines("sqlite", "postgres", why="DeerFlow has no MySQL")
def test_a_dry_run_of_an_adoption_lists_locks_and_duplicates(engine, storage_url, client, capsys):
    build(client, "D")

    assert main(["schema", "upgrade", "--dry-run", "--url", storage_url]) == 3

    shown = capsys.readouterr().out
    assert "run r2 of thread t1 is running beside a newer active run" in shown
    assert "feedback f1 of thread t1, run r1 has no user" in shown
    assert ("REWRITTEN" in shown) is (engine == "postgres")
    assert main(["schema", "status", "--json", "--url", storage_url]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["branch"]) == ("pending", "legacy")
    assert document["plan"]["statements"][0]["part"] == "adoption"


def test_doctor_speaks_of_every_surface(migrated_url, capsys):
    assert main(["doctor", "--url", migrated_url]) == 0
    shown = capsys.readouterr().out
    assert main(["doctor", "--json", "--url", migrated_url]) == 0
    document = json.loads(capsys.readouterr().out)

    names = [surface["name"] for surface in document["recovery"]["surfaces"]]
    assert {"checkpointer", "store", "runs", "run_events", "threads_meta"} <= set(names)
    assert all(name in shown for name in names)
    assert document["schema"]["version"] == "0006_feedback_admitted"


@pytest.mark.engines("sqlite", why="no database is asked")
def test_doctor_creates_nothing(tmp_path, capsys):
    assert main(["doctor", "--url", f"sqlite:///{tmp_path}/none.db"]) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engines("sqlite", why="one engine is enough")
def test_the_configuration_file_is_read(tmp_path, capsys, monkeypatch):
    (tmp_path / "other.yaml").write_text("storage:\n  driver: sqlite\n  sqlite_dir: data\n")
    monkeypatch.chdir(tmp_path)

    assert main(["schema", "upgrade", "--config", "other.yaml"]) == 0
    assert (tmp_path / "data" / "deerflow.db").exists()
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", "other.yaml")
    assert main(["schema", "status"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["schema", "nonsense"], 2),
        (["--nonsense"], 2),
        (["schema", "status", "--url", "mysq://x/y"], 2),
        (["schema", "status", "--config", "/no/such/file.yaml"], 2),
        (["schema", "status", "--url", "postgresql://u:secret@127.0.0.1:1/d"], 1),
        (["schema", "--help"], 0),
    ],
)
def test_exit_codes(arguments, code, capsys):
    assert main(arguments) == code
    assert "secret" not in "".join(capsys.readouterr())


def test_the_command_is_installed_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "deerstore.cli", "schema", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for command in ("status", "upgrade", "sql"):
        assert command in done.stdout


def test_a_missing_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "deerstore.cli.app", raising=False)

    assert main(["schema", "status"]) == 1

    assert "pip install 'deerstore[cli]'" in capsys.readouterr().err
