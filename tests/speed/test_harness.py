"""The benchmark itself: it compares before it times, and leaves its samples beside the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deerstore.workbench.bench import Series, median_interval, ratio_interval
from deerstore.workbench.bench.run import compare
from deerstore.workbench.bench.seed import event

ROOT = Path(__file__).resolve().parents[2]


def test_intervals_tell_what_cannot_be_told_apart():
    near, far = median_interval([9, 10, 11] * 5), median_interval([19, 20, 21] * 5)
    assert near.low <= near.value <= near.high
    assert not near.overlaps(far)
    assert near.overlaps(median_interval([10, 11, 9] * 5))
    ratio = ratio_interval(Series("a", [[20, 21], [40, 41]]), Series("b", [[10, 11], [20, 21]]))
    assert ratio.value == pytest.approx(1.96, abs=0.03)


def test_rows_that_differ_are_found_before_anything_is_timed():
    given = event("t", "r", 1)
    values = list(given.model_dump().values())
    compare("same", [given], [values])
    with pytest.raises(AssertionError, match="different rows"):
        compare("other", [given], [[*values[:-1], "else"]])


def test_a_run_leaves_a_page_and_its_raw_samples(tmp_path):
    pytest.importorskip("sqlalchemy")
    command = [
        "--engines",
        "sqlite",
        "--parts",
        "queries",
        "--only",
        "runs.get_run",
        "--rounds",
        "3",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *command, "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    samples = json.loads((tmp_path / "samples.json").read_text())
    runs = samples["queries"]["sqlite"]["runs.get_run"]
    assert {"floor", "deerstore", "SQLAlchemy ORM", "SQLAlchemy Core", "aiosql"} == set(runs)
    assert [len(blocks) for blocks in runs.values()] == [3] * 5
    assert samples["machine"]["command"].endswith(str(tmp_path))
    assert samples["machine"]["packages"]["pydantic"]
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert "runs.get_run" in page
