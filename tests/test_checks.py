"""`make check` is clean, so that whoever runs the tests holds the house rules too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_make_check_is_clean() -> None:
    """Lint, format, types, the floors between the rooms and the SQL."""
    done = subprocess.run(
        # This environment is complete as it is: it is not to be made again.
        ["make", "check", f"VENV={sys.prefix}", f"--old-file={sys.prefix}/.installed"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
