"""``python -m benchmarks``: measure deerstore, its floor and its peers, and write a report.

Without servers in the environment (``DEERSTORE_TEST_POSTGRES_URL``, ``DEERSTORE_TEST_MYSQL_URL``)
private ones are started and stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks import startup
from benchmarks.appends import joined_appends
from benchmarks.checkpoints import compare_checkpointers
from benchmarks.delay import delayed
from benchmarks.growth import grow_events, grow_runs, grow_threads
from benchmarks.load import closed_loop, open_loop
from benchmarks.places import KINDS, Place, places
from benchmarks.queries import measure_queries
from benchmarks.report import Report, machine, summary
from benchmarks.versions import server_version
from deerstore.workbench.bench import Line

PARTS = ("queries", "delay", "load", "growth", "appends", "checkpoints", "startup")
_OVER_THE_NETWORK = ("get_run", "list_messages 50", "create_run", "append_batch 10")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--engines", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--only", default="", help="operations whose name contains one of these")
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", action="store_true", help="few samples, small tables (default)")
    speed.add_argument("--full", action="store_true", help="many samples, up to a million rows")
    parser.add_argument("--rounds", type=int, default=0, help="blocks per competitor")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    chosen = parser.parse_args(arguments)
    kinds, parts = chosen.engines.split(","), chosen.parts.split(",")
    for given, known in ((kinds, KINDS), (parts, PARTS)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    report = Report(machine())
    started = time.monotonic()
    only = [part for part in chosen.only.split(",") if part]
    for kind in kinds:
        with places([kind]) as (place,):
            asyncio.run(_databases(place, report, chosen, parts, only))
        if "growth" in parts:
            with places([kind]) as (place,):
                asyncio.run(_growth(place, report, full=chosen.full))
        if "checkpoints" in parts and kind != "asyncmy":
            with places([kind]) as (place,):
                figures = asyncio.run(compare_checkpointers(place, full=chosen.full))
            _keep(report, "Checkpointer, 16 tasks", kind, figures)
        report.write(chosen.out)
    if "startup" in parts:
        report.figures["Start"] = startup.figures()
        print("start", report.figures["Start"])
    report.machine["seconds"] = round(time.monotonic() - started)
    report.write(chosen.out)
    print(f"{chosen.out / 'report.html'} after {report.machine['seconds']} s")
    return 0


async def _databases(
    place: Place, report: Report, chosen: argparse.Namespace, parts: list[str], only: list[str]
) -> None:
    kind = place.kind
    report.machine["servers"][kind] = await server_version(place)
    rounds = chosen.rounds or (60 if chosen.full else 14)
    seeded = False

    def keep(into: dict[str, list[Line]], line: Line) -> None:
        into.setdefault(kind, []).append(line)
        print(summary(kind, line), flush=True)

    if "queries" in parts:
        await measure_queries(
            place, rounds=rounds, only=only, report=lambda _, line: keep(report.lines, line)
        )
        seeded = True
    if "delay" in parts and kind != "sqlite":
        async with delayed(place, 0.001) as slow:
            await measure_queries(
                slow,
                rounds=max(5, rounds // 2),
                only=only or _OVER_THE_NETWORK,
                report=lambda _, line: keep(report.delayed, line),
                seeded=seeded,
            )
        seeded = True
    if "load" in parts:
        slices, seconds = (10, 2.0) if chosen.full else (4, 0.75)
        report.throughput[kind] = await closed_loop(
            place, slices=slices, seconds=seconds, seeded=seeded
        )
        rates = (100, 300, 600, 1_200) if chosen.full else (100, 400)
        report.latency[kind] = await open_loop(place, rates=rates, seconds=seconds * 2)
        for each in report.throughput[kind]:
            print(f"{kind:9} {each.name:15} {median(each.per_second):.0f}/s", flush=True)
        seeded = True
    if "appends" in parts and kind == "sqlite":
        figures = await joined_appends(place, full=chosen.full)
        _keep(report, "SQLite: 32 tasks, one event each", kind, figures)


async def _growth(place: Place, report: Report, *, full: bool) -> None:
    sizes = [1_000, 10_000, 100_000, 1_000_000] if full else [1_000, 10_000, 50_000]
    rounds = 15 if full else 7
    of = report.growth.setdefault(place.kind, {})
    of["search_threads over threads"] = await grow_threads(place, sizes, rounds=rounds)
    of["one thread of events"] = await grow_events(place, sizes, rounds=rounds)
    of["one thread of runs"] = await grow_runs(place, sizes[:3], rounds=rounds)
    for points in of.values():
        for point in points:
            print(
                f"{place.kind:9} {point.what:36} {point.size:>9,} {point.time.value / 1e3:9.0f} µs"
            )


def _keep(report: Report, title: str, kind: str, figures: object) -> None:
    report.figures.setdefault(title, {})[kind] = figures
    print(title, kind, figures, flush=True)


if __name__ == "__main__":
    sys.exit(main())
