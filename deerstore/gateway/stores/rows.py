"""DTOs to the dicts that a gateway speaks, and a gateway's loose arguments to the repositories'."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ValidationError

from deerstore.errors import InvalidValueError

__all__ = ["as_row", "as_rows", "as_text", "as_texts", "invalid", "optional_text"]

# The tables' own names.
_COLUMNS = {"created_time": "created_at", "updated_time": "updated_at"}


def as_row(model: BaseModel) -> dict[str, Any]:
    """A stored model under the names of its columns, with ISO 8601 times."""
    return {
        _COLUMNS.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in model.__dict__.items()
    }


def as_rows(models: Iterable[BaseModel]) -> list[dict[str, Any]]:
    """Several of them, in order."""
    return [as_row(model) for model in models]


def as_text(value: Any) -> Any:
    """The text of a string enum; anything else as it is, for the repository to judge."""
    if isinstance(value, Enum):
        value = value.value
    return str.__str__(value) if isinstance(value, str) else value


def as_texts(values: Iterable[Any]) -> list[Any]:
    """Texts of a list or a set; a single text is not a list, and is left for the repository."""
    return values if isinstance(values, str) else [as_text(value) for value in values]  # type: ignore[return-value]


def optional_text(value: Any) -> str | None:
    """A name that may be given as any object: its string."""
    return None if value is None else as_text(value) if isinstance(value, str) else str(value)


def invalid(error: ValidationError, *, index: int | None = None) -> InvalidValueError:
    """What a DTO refused, as the error of a wrong value; the value itself is not shown."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    places = [".".join(map(str, problem["loc"])) for problem in problems]
    text = "; ".join(f"{place}: {p['msg']}" for place, p in zip(places, problems, strict=True))
    prefix = "" if index is None else f"events[{index}]: "
    return InvalidValueError(f"{prefix}{text}", field=places[0] if places else None, index=index)
