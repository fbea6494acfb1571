"""Each folder of `golden` holds query files with one mistake, and the error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerstore.errors import QueryFileError
from deerstore.queries import load_queries

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(folder.name for folder in GOLDEN.iterdir())


@pytest.mark.parametrize("case", CASES)
def test_mistake_is_named_with_its_place(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # From inside the folder, so that the paths in the messages are the same everywhere.
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(QueryFileError) as caught:
        load_queries(case)
    expected = (GOLDEN / case / "expected.txt").read_text(encoding="utf-8")
    assert f"{caught.value}\n" == expected


def test_every_case_has_its_expected_message_and_a_file() -> None:
    for case in CASES:
        assert (GOLDEN / case / "expected.txt").is_file(), case
        assert list((GOLDEN / case).rglob("*.sql")), case
