"""The commands. Each one is thin: it asks a room below and shows the answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from deerstore.cli import EXIT_DRIFT, EXIT_NEWER, EXIT_PENDING, show
from deerstore.config import StorageConfig, load_config
from deerstore.schema import (
    PlannedStatement,
    SchemaStatus,
    SetupReport,
    plan_upgrade,
    schema_status,
)

__all__ = ["app", "run"]

app = typer.Typer(
    name="deerstore",
    help="The fact layer of an agent gateway: its schema, and what a restart brings back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
schema = typer.Typer(help="Look at the schema, and upgrade it.", no_args_is_help=True)
app.add_typer(schema, name="schema")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="A YAML file; default: DEER_FLOW_CONFIG_PATH, else config.yaml."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", "-u", help="A database URL instead of a configuration file."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document for machines.")]

_EXIT = {"current": 0, "pending": EXIT_PENDING, "drift": EXIT_DRIFT, "newer": EXIT_NEWER}


def run(arguments: list[str] | None) -> int:
    """Run the command line and return its exit code; deerstore's errors come out."""
    try:
        app(args=arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _configuration(config: Path | None, url: str | None) -> StorageConfig:
    if url is not None:
        return StorageConfig(database_url=url)
    return load_config(config).storage


@schema.command("status")
def status(config: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show the state of the schema. Writes nothing.

    Exits with 0 when it is up to date, 3 when an upgrade is pending, 4 when the schema has
    drifted, 5 when a newer release made it.
    """
    found = asyncio.run(schema_status(_configuration(config, url)))
    if as_json:
        _print_json(_status_document(found))
    else:
        show.status(found)
    raise typer.Exit(_EXIT[found.state])


@schema.command("upgrade")
def upgrade(
    config: ConfigOption = None,
    url: UrlOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or upgrade every table, LangGraph's included; what a gateway's start does.

    With --dry-run it exits with 3 when there is something to do.
    """
    storage = _configuration(config, url)
    if dry_run:
        plan = asyncio.run(plan_upgrade(storage))
        if as_json:
            _print_json(asdict(plan))
        else:
            show.plan(plan)
        raise typer.Exit(0 if plan.is_empty else EXIT_PENDING)
    report = asyncio.run(_upgrade(storage, quiet=as_json))
    if as_json:
        _print_json(asdict(report))
    else:
        show.report(report)


async def _upgrade(storage: StorageConfig, *, quiet: bool) -> SetupReport:
    from deerstore.persistence import create_persistence_from_storage_config

    persistence = await create_persistence_from_storage_config(storage)
    try:
        if quiet:
            return await persistence.setup()
        with show.steps() as progress:
            return await persistence.setup(progress=progress)
    finally:
        await persistence.aclose()


@schema.command("sql")
def sql(
    config: ConfigOption = None,
    url: UrlOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole schema, not only what is missing.")
    ] = False,
) -> None:
    """Print the upgrade as an SQL script, to read it or to run it by hand.

    Every statement may run twice. After running it by hand, start deerstore or run `deerstore
    schema upgrade`: it finds the work done and writes the migration log.
    """
    storage = _configuration(config, url)
    if everything:
        from deerstore.schema.migrations import load_migrations
        from deerstore.schema.plan import pending_statements

        statements: list[PlannedStatement] = list(
            pending_statements(load_migrations(storage.engine), ())
        )
        resolved: tuple[str, ...] = ()
    else:
        plan = asyncio.run(plan_upgrade(storage))
        statements, resolved = list(plan.statements), plan.resolved
    script = show.script(statements, resolved, postgres_schema=storage.postgres_schema)
    typer.echo(script, nl=False)


@app.command("doctor")
def doctor(config: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Say per surface what is kept, where, and what a restart brings back and cannot.

    Exits as `schema status` does.
    """
    storage = _configuration(config, url)
    found = asyncio.run(schema_status(storage))
    report = asyncio.run(_recovery(storage)) if found.branch != "missing" else None
    if as_json:
        _print_json(
            {
                "schema": _status_document(found),
                "recovery": report.as_dict() if report is not None else None,
            }
        )
    else:
        show.doctor(found, report)
    raise typer.Exit(_EXIT[found.state])


@app.command("bench")
def bench(
    config: ConfigOption = None,
    url: UrlOption = None,
    only: Annotated[
        str,
        typer.Option("--only", help="Operations whose name contains one of these, with commas."),
    ] = "",
    rounds: Annotated[int, typer.Option("--rounds", min=5, help="Blocks per competitor.")] = 40,
    as_json: JsonOption = False,
) -> None:
    """Measure every operation against the bare driver, on a database made for that.

    The database has to be empty. It is filled with the benchmark's rows, which stay: drop it
    afterwards. Times are medians; in brackets the interval that the measurement leaves open.
    """
    from deerstore.cli.bench import run_bench

    names = [part for part in only.split(",") if part]
    lines = asyncio.run(
        run_bench(_configuration(config, url), rounds=rounds, only=names, quiet=as_json)
    )
    if as_json:
        _print_json(lines)


async def _recovery(storage: StorageConfig) -> Any:
    from deerstore.persistence import create_persistence_from_storage_config

    persistence = await create_persistence_from_storage_config(storage)
    try:
        return await persistence.recovery_report()
    finally:
        await persistence.aclose()


def _status_document(found: SchemaStatus) -> dict[str, Any]:
    return {"state": found.state, **asdict(found)}


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))
