"""The demo does what it says, on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_demo_brings_everything_back(storage_url: str) -> None:
    """A conversation survives SIGKILL: exit status 0, each surface back, nothing lost."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "DEMO_URL": storage_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOST" not in done.stdout
    for surface in ("checkpointer", "Store", "runs", "run events", "threads_meta", "users"):
        assert f"back  {surface}" in done.stdout
