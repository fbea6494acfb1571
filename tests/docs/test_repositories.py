"""The page of the repositories names every method, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from deerstore import repositories
from deerstore.database import Executor

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "repositories.md").read_text("utf-8")

SECTIONS = {
    "Runs": repositories.RunRepository,
    "Run events": repositories.RunEventRepository,
    "Threads": repositories.ThreadMetaRepository,
    "Feedback": repositories.FeedbackRepository,
    "Users": repositories.UserRepository,
    "The database and its sessions": Executor,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_method_is_on_the_page(heading: str) -> None:
    """In the first column of the table under the repository's heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    methods = inspect.getmembers(SECTIONS[heading], inspect.isfunction)
    assert named == {name for name, _ in methods if not name.startswith("_")}
