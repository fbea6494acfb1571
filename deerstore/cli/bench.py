"""`deerstore bench`: how far deerstore is from the bare driver, on a server of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from deerstore.workbench.bench import Interval, Line, bench

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["run_bench"]


async def run_bench(
    storage: StorageConfig, *, rounds: int, only: Sequence[str], quiet: bool
) -> list[dict[str, Any]]:
    """Measure, show each line as it comes, and give them all as a document."""
    console = Console(soft_wrap=True, highlight=False, quiet=quiet)
    console.print(f"{'operation':42} {'floor':>10} {'deerstore':>10}  times the floor")
    lines = []
    async for line in bench(storage, rounds=rounds, only=only):
        lines.append(_document(line))
        ratio = line.ratio("deerstore")
        console.print(
            f"{line.operation:42} {_microseconds(line.time('floor'))} "
            f"{_microseconds(line.time('deerstore'))}  {ratio.value:.2f} "
            f"({ratio.low:.2f} to {ratio.high:.2f})"
        )
    return lines


def _microseconds(time: Interval) -> str:
    return f"{time.value / 1e3:>7.0f} µs"


def _document(line: Line) -> dict[str, Any]:
    return {
        "operation": line.operation,
        "microseconds": {
            name: [round(value / 1e3, 1) for value in line.time(name)] for name in line.names
        },
        "ratio": [round(value, 3) for value in line.ratio("deerstore")],
    }
