"""``python -m benchmarks.tables samples.json``: the tables of docs/benchmarks.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from deerstore.workbench.bench import Series, ratio_interval

__all__ = ["main"]

LIMIT = 1.25
SHOWN = (
    "users.get_user_by_email",
    "runs.get_run",
    "runs.list_runs_by_thread 50",
    "run_events.list_messages 50 of 2000",
    "run_events.list_events 500",
    "runs.aggregate_tokens_by_thread 190",
    "threads.search_threads 10, one filter",
    "runs.create_run",
    "runs.update_run_completion",
    "run_events.append_batch 1",
    "run_events.append_batch 10",
    "run_events.append_batch 100",
    "run_events.append_batch 1000",
    "feedback.upsert_feedback",
)
_ORM = ("SQLAlchemy ORM", "SQLAlchemy ORM, own key", "SQLAlchemy ORM, bulk INSERT")


def main(path: str) -> None:
    """Print the tables of one run."""
    samples = json.loads(Path(path).read_text())
    queries: dict[str, Any] = samples["queries"]
    kinds = list(queries)
    print(f"| operation | {' | '.join(f'{kind}: floor | ratio | ORM' for kind in kinds)} |")
    print(f"|---|{'---:|---:|---:|' * len(kinds)}")
    for name in SHOWN:
        cells = [cell for kind in kinds for cell in _cells(queries[kind][name])]
        print(f"| {name} | {' | '.join(cells)} |")
    for kind in kinds:
        within = sum(_ratio(of, "deerstore", "floor")[0] <= LIMIT for of in queries[kind].values())
        print(f"\n{kind}: {within} of {len(queries[kind])} within {LIMIT}; over it:")
        print(", ".join(_over(queries[kind])))
    print()
    for kind, of in samples["throughput"].items():
        rates = {each["name"]: median(each["per_second"]) for each in of}
        print(kind, {name: f"{rate:.0f}/s" for name, rate in rates.items()})
    for kind, of in samples["queries with 1 ms of delay"].items():
        print(kind, {name: " ".join(_cells(series)) for name, series in of.items()})
    print(json.dumps(samples["figures"], indent=1, ensure_ascii=False))


def _cells(of: dict[str, Any]) -> list[str]:
    floor = median(median(block) for block in of["floor"])
    shown = f"{floor / 1e3:.0f} µs" if floor < 1e6 else f"{floor / 1e6:.1f} ms"
    peers = [name for name in _ORM if name in of]
    orm = " / ".join(f"{_ratio(of, name, 'deerstore')[0]:.1f}" for name in peers)
    return [shown, f"{_ratio(of, 'deerstore', 'floor')[0]:.2f}", orm]


def _over(of: dict[str, Any]) -> Iterator[str]:
    for name, series in of.items():
        value, low, high = _ratio(series, "deerstore", "floor")
        if value > LIMIT:
            yield f"{name} {value:.2f} [{low:.2f}–{high:.2f}]"


def _ratio(of: dict[str, Any], name: str, base: str) -> tuple[float, float, float]:
    return tuple(ratio_interval(Series(name, of[name]), Series(base, of[base])))


if __name__ == "__main__":
    main(sys.argv[1])
