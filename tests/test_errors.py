"""The error tree: codes, built-in bases, pages in the docs."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path

import pytest

from deerstore import errors

PAGES = Path(__file__).parents[1] / "docs" / "errors"
CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.DeerstoreError)
]
CONCRETE = [value for value in CLASSES if value is not errors.DeerstoreError]


def test_every_class_is_exported_and_drawn_in_the_tree() -> None:
    assert sorted(value.__name__ for value in CLASSES) == errors.__all__
    drawing = errors.__doc__ or ""
    for value in CLASSES:
        assert value.__name__ in drawing


def test_codes_are_unique() -> None:
    assert len({value.code for value in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("error", CONCRETE, ids=lambda error: error.__name__)
def test_every_error_has_a_page_and_a_built_in_base(error: type[errors.DeerstoreError]) -> None:
    page = (PAGES / f"{error.code}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {error.__name__}\n")
    builtin = [base for base in error.__mro__ if base.__module__ == "builtins"]
    assert builtin[0] not in (Exception, BaseException, object)


def test_no_page_is_left_over() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {value.code for value in CONCRETE}


def test_only_a_taken_slot_looks_like_a_unique_violation() -> None:
    assert errors.ActiveRunConflictError("taken").sqlstate == "23505"
    assert not hasattr(errors.ActiveRunConflictError("live", reason="other_worker"), "sqlstate")


def test_a_missing_extra_names_what_to_install() -> None:
    error = errors.MissingExtraError("postgres", package="asyncpg")
    assert "pip install 'deerstore[postgres]'" in str(error)
    assert isinstance(error, ImportError)


@pytest.mark.parametrize(
    "error",
    [
        *(error("refused") for error in CLASSES if not set(vars(error)).intersection({"__init__"})),
        errors.InvalidValueError("refused", field="limit", index=3),
        errors.ActiveRunConflictError("taken", reason="reservation"),
        errors.ActiveRunConflictError("taken"),
        errors.IdempotencyConflictError("used", existing={"run_id": "r1"}),
        errors.PoolTimeoutError("full", waited=0.5, size=1, in_use=1),
        errors.QueryFileError("wrong", file="a.sql", line=2, column=3, excerpt="x\n^"),
        errors.QueryExecutionError("refused", query="a.b", sqlstate="42601", parameters=["x"]),
        errors.MissingExtraError("postgres", package="asyncpg"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_may_be_copied_and_sent_to_another_process(error: errors.DeerstoreError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert (other.args, vars(other)) == (error.args, vars(error))
        assert getattr(other, "name", None) == getattr(error, "name", None)
