"""`docs/query-files.md` says what the registry does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deerstore.queries import ENGINES, load_queries, parity
from deerstore.queries.header import KEYS
from deerstore.queries.model import CARDINALITIES, TYPES
from tests.queries.test_golden_errors import CASES, GOLDEN

PAGE = (Path(__file__).parents[2] / "docs" / "query-files.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MESSAGES = [
    message
    for row in re.findall(r"^\| (`.*?) \|", PAGE.partition("## Errors")[2], re.MULTILINE)
    for message in re.findall(r"`([^`]+)`", row)
]


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    for number, (language, engine, code) in enumerate(BLOCKS):
        for name in [engine] if engine else ENGINES:
            if language == "sql":
                folder = tmp_path / "queries" / name
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{number}.sql").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return load_queries("queries")


def test_its_queries_load_and_are_the_same_on_every_engine(catalog):
    assert len(catalog) == 4
    assert parity(catalog) == []


def test_its_python_runs(catalog):
    names: dict[str, object] = {}
    for code in [code for language, _, code in BLOCKS if language == "python"]:
        exec(code, names)
    assert repr(names["mine"]) == "<Query reports.list_runs :many order=oldest owner=on>"


def test_its_example_of_steps_is_read_as_it_says(catalog):
    query = catalog["reports.number_lines"].compiled("sqlite")
    assert [(step.name, step.each, step.returns) for step in query.steps] == [
        ("allocate", False, ("base",)),
        ("insert", True, ()),
        ("read", False, ()),
    ]
    assert query.result_step == 2


def test_its_example_of_an_error_is_a_true_one():
    (example,) = [code for language, _, code in BLOCKS if language == "text"]
    case = example.partition("/")[0]
    assert (GOLDEN / case / "expected.txt").read_text(encoding="utf-8") == example


@pytest.mark.parametrize("case", CASES)
def test_every_error_is_in_its_table(case):
    reason = (GOLDEN / case / "expected.txt").read_text(encoding="utf-8")
    assert [message for message in MESSAGES if message in reason]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_of_its_table_occurs(message):
    reasons = [(GOLDEN / case / "expected.txt").read_text(encoding="utf-8") for case in CASES]
    assert any(message in reason for reason in reasons)


def test_it_names_every_key_cardinality_and_type():
    for key in KEYS:
        assert f"| `-- {key}" in PAGE
    for cardinality in CARDINALITIES:
        assert f"| `:{cardinality}` |" in PAGE
    for kind in TYPES:
        assert f"| `{kind}` |" in PAGE
