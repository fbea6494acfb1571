"""Rows as callers see them: read-only mappings, or instances of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from deerstore.database.failures import execution_error
from deerstore.queries import CompiledQuery

__all__ = ["Row", "build_rows"]


class Row(Mapping[str, Any]):
    """One row: a read-only mapping from column names to values, also addressed by position.

    ``row["title"]``, ``row[0]`` and ``row[-1]`` all work; iterating gives the names, ``values()``
    the values in the order of the columns.
    """

    __slots__ = ("_index", "_values")

    def __init__(self, index: Mapping[str, int], values: tuple[Any, ...]) -> None:
        self._index = index
        self._values = values

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return self._values[self._index[key]]
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


def build_rows(
    query: CompiledQuery,
    names: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    model: Any = None,
) -> list[Any]:
    """Rows as :class:`Row`, or as instances of ``model``.

    A model is a pydantic model, a dataclass, a ``TypedDict`` or a ``NamedTuple``.

    Raises:
        QueryExecutionError: a row does not fit the model; the cause says where.
    """
    if model is None:
        index = {name: position for position, name in enumerate(names)}
        return [Row(index, row) for row in rows]
    from pydantic import ValidationError

    build = _builder(model)
    try:
        return [build(dict(zip(names, row, strict=True))) for row in rows]
    except ValidationError as error:
        fields = sorted({".".join(map(str, item["loc"])) for item in error.errors()})
        raise execution_error(
            query, f"a row does not fit {_name(model)}: {', '.join(fields)}"
        ) from error


@lru_cache(maxsize=256)
def _builder(model: Any) -> Callable[[dict[str, Any]], Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(model).validate_python


def _name(model: Any) -> str:
    return getattr(model, "__name__", repr(model))
