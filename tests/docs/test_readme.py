"""The first example of the README runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_example_runs_as_it_stands(tmp_path: Path) -> None:
    """In an empty folder it prints what the README says, and leaves the database it names."""
    example = re.search(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    printed = re.search(r"It prints `([^`]+)`", README)
    assert example
    assert printed
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (printed[1], "")
    assert (tmp_path / "deerflow.db").exists()


def test_every_verb_of_the_makefile_is_one_line_here() -> None:
    """The table names each verb that `make help` shows, and no other."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)) - {"help"}
    table = set(re.findall(r"^\| `make ([a-z-]+)`", README, re.MULTILINE))
    assert table == verbs
