"""What a run leaves: the raw samples as JSON, a page for people, and a table in the terminal."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.growth import Point
from benchmarks.load import Latency, Throughput
from benchmarks.plots import bars, duration, lines
from deerstore.workbench.bench import Line

__all__ = ["Report", "machine", "summary"]

_PACKAGES = (
    "deerstore", "pydantic", "aiosqlite", "asyncpg", "aiomysql", "asyncmy", "PyMySQL",
    "SQLAlchemy", "aiosql", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-mysql",
)  # fmt: skip
_INTRODUCTION = """
<p>Medians of blocks that ran in random order in one process; the thin line is the 95 % interval.
The floor is the same SQL on the bare driver with the same JSON, and no DTO. Ratios are taken round
by round. Read ratios, not times.</p>
"""
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .15em .7em; text-align: right }
td:first-child, th:first-child { text-align: left } tr:nth-child(even) { background: #f4f4f4 }
svg text { font: 11px system-ui, sans-serif } h3 { margin: 1.2em 0 .2em; font-size: 1em }
.over { color: #c62828 }
"""


def machine() -> dict[str, Any]:
    """Where and with what the figures were taken."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load average": [round(value, 1) for value in os.getloadavg()],
        "SQLite": sqlite3.sqlite_version,
        "servers": {},
        "packages": versions,
    }


@dataclass
class Report:
    """Everything that one run has measured, by kind of engine."""

    machine: dict[str, Any]
    lines: dict[str, list[Line]] = field(default_factory=dict)
    delayed: dict[str, list[Line]] = field(default_factory=dict)
    throughput: dict[str, list[Throughput]] = field(default_factory=dict)
    latency: dict[str, list[Latency]] = field(default_factory=dict)
    growth: dict[str, dict[str, list[Point]]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write ``report.html`` and ``samples.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "samples.json").write_text(json.dumps(self._samples()))
        (folder / "report.html").write_text(self._page())

    def _samples(self) -> dict[str, Any]:
        def raw(lines_of: dict[str, list[Line]]) -> Any:
            return {
                kind: {
                    line.operation: {each.name: each.blocks for each in line.series}
                    for line in measured
                }
                for kind, measured in lines_of.items()
            }

        return {
            "machine": self.machine,
            "unit": "nanoseconds per call, in blocks; throughput and latency in seconds",
            "queries": raw(self.lines),
            "queries with 1 ms of delay": raw(self.delayed),
            "throughput": {k: [vars(t) for t in v] for k, v in self.throughput.items()},
            "latency": {k: [vars(t) for t in v] for k, v in self.latency.items()},
            "growth": {
                kind: {
                    what: [[p.what, p.size, *p.time] for p in points] for what, points in of.items()
                }
                for kind, of in self.growth.items()
            },
            "figures": self.figures,
        }

    def _page(self) -> str:
        parts = [
            "<!doctype html><meta charset=utf-8><title>deerstore: benchmarks</title>",
            f"<style>{_STYLE}</style><h1>deerstore against its floor and its peers</h1>",
            _INTRODUCTION,
            f"<pre>{escape(json.dumps(self.machine, indent=1))}</pre>",
        ]
        for title, measured in (("Queries", self.lines), ("With 1 ms of delay", self.delayed)):
            for kind, of in measured.items():
                parts.append(f"<h2>{title}: {escape(kind)}</h2>")
                parts += [_plot(line) for line in of]
        parts += [self._load(kind) for kind in self.throughput]
        for kind, of in self.growth.items():
            for what, points in of.items():
                curves: dict[str, list[Any]] = {}
                for point in points:
                    curves.setdefault(point.what, []).append((point.size, point.time))
                parts.append(f"<h2>Growth, {escape(what)}: {escape(kind)}</h2>{lines(curves)}")
        for title, figures in self.figures.items():
            shown = escape(json.dumps(figures, indent=1, ensure_ascii=False))
            parts.append(f"<h2>{escape(title)}</h2><pre>{shown}</pre>")
        return "\n".join(parts)

    def _load(self, kind: str) -> str:
        rows = "".join(
            f"<tr><td>{escape(each.name)}<td>{median(each.per_second):.0f}"
            f"<td>{_at(each.latencies, 0.5)}<td>{_at(each.latencies, 0.99)}"
            for each in self.throughput[kind]
        )
        rates = "".join(
            f"<tr><td>{escape(each.name)} at {each.rate}/s"
            + "".join(f"<td>{_at(each.latencies, part)}" for part in (0.5, 0.95, 0.99))
            for each in self.latency.get(kind, [])
        )
        return (
            f"<h2>Mixed load, 32 tasks, pool of 10: {escape(kind)}</h2><table>"
            f"<tr><th>closed loop<th>operations/s<th>p50<th>p99{rows}</table>"
            f"<table><tr><th>open loop<th>p50<th>p95<th>p99{rates}</table>"
        )


def _plot(line: Line) -> str:
    rows = []
    for name in line.names:
        remark = ""
        if name != "floor":
            ratio = line.ratio(name)
            remark = f"{ratio.value:.2f} × floor [{ratio.low:.2f}–{ratio.high:.2f}]"
        rows.append((name, line.time(name), remark))
    return f"<h3>{escape(line.operation)}{_verdict(line)}</h3>{bars(rows)}"


def _verdict(line: Line) -> str:
    others = [name for name in line.names if name not in ("floor", "deerstore")]
    if not others:
        return ""
    best = min(others, key=lambda name: line.time(name).value)
    ratio = line.ratio(best, "deerstore")
    if ratio.low <= 1 <= ratio.high:
        return f" – no winner between deerstore and {escape(best)}"
    return f" – {escape(best)} takes {ratio.value:.1f} × deerstore's time"


def _at(latencies: list[float], part: float) -> str:
    if not latencies:
        return "–"
    return duration(sorted(latencies)[min(len(latencies) - 1, int(len(latencies) * part))] * 1e9)


def summary(kind: str, line: Line) -> str:
    """One line for the terminal."""
    times = []
    for name in line.names:
        shown = f"{name} {duration(line.time(name).value)}"
        if name != "floor":
            ratio = line.ratio(name)
            shown += f" ({ratio.value:.2f} [{ratio.low:.2f}–{ratio.high:.2f}])"
        times.append(shown)
    return f"{kind:9} {line.operation:42} {'  '.join(times)}"
