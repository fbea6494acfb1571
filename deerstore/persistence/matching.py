"""What a Store search matches: the filters and namespace patterns of LangGraph, by JSON's types.

A filter maps keys of an item's value to what they must be: a value, an object whose own keys must
match, or operators (``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``). ``True`` is not 1,
``1`` is not ``"1"``, and 1 is 1.0. The four comparisons hold between two numbers or two strings
and are false between anything else. A missing key is like null.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deerstore.errors import InvalidValueError

if TYPE_CHECKING:
    from langgraph.store.base import MatchCondition

__all__ = ["matches_filter", "matches_namespace"]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches_filter(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether an item's value meets every condition of a filter."""
    if not isinstance(value, dict):
        return False
    return all(_matches(value.get(key), condition) for key, condition in wanted.items())


def _matches(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return _equal(value, condition)
    if any(isinstance(key, str) and key.startswith("$") for key in condition):
        return all(_holds(value, name, operand) for name, operand in condition.items())
    return isinstance(value, dict) and matches_filter(value, condition)


def _holds(value: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return _equal(value, operand)
    if name == "$ne":
        return not _equal(value, operand)
    compare = _COMPARISONS.get(name)
    if compare is None:
        raise InvalidValueError(
            f"the filter has the unknown operator {name!r}; "
            f"known are $eq, $ne, {', '.join(_COMPARISONS)}",
            field="filter",
        )
    comparable = (_is_number(value) and _is_number(operand)) or (
        isinstance(value, str) and isinstance(operand, str)
    )
    return comparable and compare(value, operand)


def _equal(value: Any, wanted: Any) -> bool:
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    if isinstance(value, list) and isinstance(wanted, list | tuple):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, Mapping):
        return value.keys() == wanted.keys() and all(
            _equal(value[key], wanted[key]) for key in value
        )
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(type(value) is type(wanted) and value == wanted) or (
        isinstance(value, str) and isinstance(wanted, str) and value == wanted
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def matches_namespace(condition: MatchCondition, namespace: Sequence[str]) -> bool:
    """Whether a namespace begins (or ends) with a path, label by label; ``*`` is any one label."""
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise InvalidValueError(
            f"match_type must be prefix or suffix, not {condition.match_type!r}", field="match_type"
        )
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
