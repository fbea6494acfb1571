"""Every link from one page of the repository to another leads somewhere."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a (?:id|name)=\"(?P<name>[^\"]+)\"")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and a heading that is on it."""
    broken = []
    for match in _LINK.finditer(_FENCE.sub("", page.read_text())):
        target, _, fragment = match["target"].partition("#")
        if ":" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (fragment and fragment not in _anchors(file)):
            broken.append(match["target"])
    assert not broken


def _anchors(page: Path) -> set[str]:
    if page.suffix != ".md":
        return set()
    text = page.read_text()
    headings = (_slug(match["text"]) for match in _HEADING.finditer(_FENCE.sub("", text)))
    return {*headings, *(match["name"] for match in _ANCHOR.finditer(text))}


def _slug(heading: str) -> str:
    """The anchor that a forge gives a heading."""
    kept = [
        character
        for character in heading.lower()
        if character in " -_" or unicodedata.category(character)[0] in "LN"
    ]
    return "".join(kept).replace(" ", "-")
