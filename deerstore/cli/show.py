"""How the answers look to people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from deerstore.persistence.recovery import RecoveryReport
    from deerstore.schema import PlannedStatement, SchemaStatus, SetupReport, UpgradePlan

__all__ = ["doctor", "plan", "report", "script", "status", "steps"]

_BRANCHES = {
    "missing": "there is no database yet",
    "empty": "empty",
    "legacy": "tables without a migration log, DeerFlow's or made by hand: adopted in place",
    "versioned": "made or adopted by deerstore",
}
_STATES = {
    "current": "[green]up to date[/green]",
    "pending": "[yellow]an upgrade is pending[/yellow]",
    "drift": "[red]drifted from the expected schema[/red]",
    "newer": "[red]made by a newer release of deerstore[/red]",
}


def _console() -> Console:
    # Made per call: a test or a pipe may have replaced standard output. Paths and statements are
    # not to be broken at the width of a terminal that is not there.
    return Console(soft_wrap=True, highlight=False)


def status(found: SchemaStatus) -> None:
    """The state of a schema."""
    console = _console()
    console.print(f"Database  {escape(found.place)} ({found.engine})")
    console.print(f"Found     {_BRANCHES[found.branch]}")
    console.print(f"Version   {found.version or 'none'}")
    console.print(f"Schema    {_STATES[found.state]}")
    for name in found.newer:
        console.print(f"  unknown migration {escape(name)}")
    for drift in found.drift:
        console.print(f"  [red]{escape(drift.message)}[/red]; to restore it:")
        for statement in drift.restore:
            console.print(_indented(f"{statement};" if statement[:2] != "--" else statement, 4))
    if found.pending:
        console.print(f"Pending   {', '.join(found.pending)}")
    _resolved(console, found.plan.resolved)
    if not found.plan.is_empty:
        console.print("`deerstore schema upgrade --dry-run` shows what would be done.")


def plan(found: UpgradePlan) -> None:
    """What an upgrade would do, statement by statement."""
    console = _console()
    if found.is_empty:
        console.print("Nothing to do.")
        return
    part = ""
    for statement in found.statements:
        if statement.part != part:
            part = statement.part
            console.print(f"[bold]{escape(part)}[/bold]")
        if statement.note:
            colour = "red" if statement.rewrites else "cyan"
            console.print(f"  [{colour}]-- {escape(statement.note)}[/{colour}]")
        console.print(_indented(f"{statement.sql};", 2))
    _resolved(console, found.resolved)
    console.print(
        f"{len(found.statements)} statements; LangGraph's own setup follows. Nothing was done."
    )


def script(
    statements: Sequence[PlannedStatement], resolved: Sequence[str], *, postgres_schema: str = ""
) -> str:
    """The statements as a script for the engine's own shell."""
    lines = [f"-- at the next start: {line}" for line in resolved]
    if statements and postgres_schema:
        # A shell's own search path is another one: the tables would be made in public.
        quoted = '"' + postgres_schema.replace('"', '""') + '"'
        lines += [f"CREATE SCHEMA IF NOT EXISTS {quoted};", f"SET search_path = {quoted};"]
    part = ""
    for statement in statements:
        if statement.part != part:
            part = statement.part
            lines.append(f"\n-- {part}")
        if statement.note:
            lines.append(f"-- {statement.note}")
        lines.append(f"{statement.sql};")
    return "\n".join([*lines, ""]) if lines else ""


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """A progress display: the step at work with its time, and each one that took long."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    current, since = "", time.monotonic()

    def finish() -> None:
        spent = time.monotonic() - since
        if current and spent > 1:
            console.print(f"{spent:8.1f} s  {escape(current)}")

    with console.status("starting") as display:

        def progress(line: str) -> None:
            nonlocal current, since
            finish()
            current, since = line, time.monotonic()
            display.update(escape(line))

        yield progress
        finish()


def report(done: SetupReport) -> None:
    """What an upgrade did."""
    console = _console()
    if done.adopted:
        console.print(f"Completed the tables that were there with {len(done.adopted)} statements.")
    console.print(
        f"Applied {', '.join(done.applied)}." if done.applied else "No migration was pending."
    )
    for line in done.resolved:
        console.print(f"  {escape(line)}")
    console.print(f"The schema is at {done.version}.")


def doctor(found: SchemaStatus, recovery: RecoveryReport | None) -> None:
    """Per surface: what is there, and what a restart gives."""
    console = _console()
    status(found)
    if recovery is None:
        console.print("Nothing is kept yet.")
        return
    table = Table(show_lines=True, expand=True)
    for name in ("Surface", "Durable", "Rows", "A restart brings back", "It cannot bring back"):
        table.add_column(name, overflow="fold")
    for surface in recovery.surfaces:
        table.add_row(
            surface.name,
            "yes" if surface.durable else "[red]no[/red]",
            "no table" if surface.rows is None else f"{surface.rows}",
            escape(surface.brings_back),
            escape(surface.cannot_bring_back),
        )
    Console(highlight=False).print(table)


def _resolved(console: Console, lines: Sequence[str]) -> None:
    if lines:
        console.print("Rows that another writer left and that cannot stay as they are:")
        for line in lines:
            console.print(f"  {escape(line)}")


def _indented(text: str, by: int) -> str:
    return "\n".join(f"{' ' * by}{escape(line)}" for line in text.splitlines())
