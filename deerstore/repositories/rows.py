"""Result tuples to DTOs, and stored JSON to values, without a validation per row.

The columns of deerstore's own queries have declared types, so a tuple that comes back holds what
the DTO's fields promise: validating it again would cost a fifth of a page of fifty rows. Instances
are therefore built the way pydantic builds them after a validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from deerstore.values import decode_json

__all__ = ["row_builder", "stored_value"]

Model = TypeVar("Model", bound=BaseModel)


def row_builder(
    model: type[Model],
    fields: Sequence[str],
    decode: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Callable[[Sequence[Any]], Model]:
    """A function that makes one ``model`` from a tuple whose positions are ``fields``.

    ``decode`` names the fields that are stored in another form, with the function that reads it.
    Every field of the model must be given, once: a query and its DTO that have grown apart are
    found at import, not at the first row.
    """
    if sorted(fields) != sorted(model.model_fields):
        raise TypeError(f"{model.__name__} has other fields than {', '.join(fields)}")
    names = tuple(fields)
    decoders = tuple((decode or {}).items())
    # Shared by all instances: every field of a row is set, and a frozen model never changes it.
    fields_set = set(names)
    new, assign = model.__new__, object.__setattr__

    def build(row: Sequence[Any]) -> Model:
        state = dict(zip(names, row, strict=True))
        for name, read in decoders:
            state[name] = read(state[name])
        instance = new(model)
        assign(instance, "__dict__", state)
        assign(instance, "__pydantic_fields_set__", fields_set)
        assign(instance, "__pydantic_extra__", None)
        assign(instance, "__pydantic_private__", None)
        return instance

    return build


def stored_value(stored: Any) -> Any:
    """A JSON value as it lies in a table, whoever wrote it.

    Text that is not JSON reads as the text itself, and what an engine made a number of is one: a
    foreign row never makes a list fail.
    """
    if isinstance(stored, str | bytes | bytearray):
        try:
            return decode_json(stored)
        except (ValueError, RecursionError):
            return stored if isinstance(stored, str) else stored.decode("utf-8", "replace")
    return stored
