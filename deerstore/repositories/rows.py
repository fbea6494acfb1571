"""Result tuples to DTOs, and stored JSON to values, without a validation per row.

The columns of deerstore's own queries have declared types, so a tuple that comes back holds what
the DTO's fields promise: validating it again would cost a fifth of a page of fifty rows. Instances
are therefore built the way pydantic builds them after a validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from deerstore.json_text import decode_json

__all__ = ["row_builder", "stored_value"]

Model = TypeVar("Model", bound=BaseModel)

# What a validated instance is made of. Setting a slot by its descriptor skips the look-ups of
# ``object.__setattr__``.
_SLOTS = {
    name: vars(BaseModel)[slot].__set__
    for name, slot in (
        ("set_values", "__dict__"),
        ("set_fields", "__pydantic_fields_set__"),
        ("set_extra", "__pydantic_extra__"),
        ("set_private", "__pydantic_private__"),
    )
}


def row_builder(
    model: type[Model],
    fields: Sequence[str],
    decode: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Callable[[Sequence[Any]], Model]:
    """A function that makes one ``model`` from a tuple whose positions are ``fields``.

    ``decode`` names the fields that are stored in another form, with the function that reads it.
    Every field of the model must be given, once: a query and its DTO that have grown apart are
    found at import, not at the first row.

    The function is written out for the fields, as dataclasses write their ``__init__``.
    """
    if sorted(fields) != sorted(model.model_fields):
        raise TypeError(f"{model.__name__} has other fields than {', '.join(fields)}")
    names: dict[str, Any] = {"model": model, "new": object.__new__, **_SLOTS}
    # Shared by all instances: every field of a row is set, and a frozen model never changes it.
    names["fields_set"] = set(fields)
    names |= {f"read_{name}": read for name, read in (decode or {}).items()}
    values = (
        f"{name!r}: read_{name}(v{place})" if f"read_{name}" in names else f"{name!r}: v{place}"
        for place, name in enumerate(fields)
    )
    source = f"""
def build(row):
    {", ".join(f"v{place}" for place in range(len(fields)))} = row
    instance = new(model)
    set_values(instance, {{{", ".join(values)}}})
    set_fields(instance, fields_set)
    set_extra(instance, None)
    set_private(instance, None)
    return instance
"""
    # The source is made of the names of a model's fields.
    exec(source, names)  # noqa: S102
    build: Callable[[Sequence[Any]], Model] = names["build"]
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
