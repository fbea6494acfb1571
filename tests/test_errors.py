"""The error tree: codes, built-in bases, pages in the docs."""

from __future__ import annotations

import inspect
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
