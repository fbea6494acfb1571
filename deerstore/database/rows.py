"""Rows as callers see them: read-only mappings, or instances of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    names: tuple[str, ...] | None,
    rows: Sequence[tuple[Any, ...]],
    model: Any = None,
) -> list[Any]:
    """Rows as :class:`Row`, or as instances of ``model``.

    ``names`` are the driver's, for a query that does not declare its columns. A model is a
    pydantic model, a dataclass, a ``TypedDict`` or a ``NamedTuple``.

    Raises:
        QueryExecutionError: a row does not fit the model; the cause says where.
    """
    index = _declared_index(query) if query.columns is not None else _index(names or ())
    if rows and len(index) != len(rows[0]):
        raise execution_error(query, "two of its columns have the same name, or one has no name")
    if model is None:
        return [Row(index, row) for row in rows]
    from pydantic import ValidationError

    build = _builder(model)
    try:
        return [build(dict(zip(index, row, strict=False))) for row in rows]
    except ValidationError as error:
        fields = sorted({".".join(map(str, item["loc"])) for item in error.errors()})
        raise execution_error(
            query, f"a row does not fit {_name(model)}: {', '.join(fields)}"
        ) from error


def _index(names: Iterable[str]) -> Mapping[str, int]:
    return {name: position for position, name in enumerate(names)}


@lru_cache(maxsize=2048)
def _declared_index(query: CompiledQuery) -> Mapping[str, int]:
    return _index(column.name for column in query.columns or ())


@lru_cache(maxsize=256)
def _builder(model: Any) -> Callable[[dict[str, Any]], Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(model).validate_python


def _name(model: Any) -> str:
    return getattr(model, "__name__", repr(model))
