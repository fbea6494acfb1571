"""From a caller's parameters to a driver's arguments, with as little as possible in between.

The function that binds a query is written out for its parameters when the query is compiled, as
dataclasses write their ``__init__``: a loop over parameters with a call for each would cost more
than all that has to be done for them. Its source is made of positions, types and numbers; neither
a name nor a value ever stands in it. A value that is ordinary for its type passes by a condition
in the source, any other goes to its :class:`~deerstore.queries.checking.Check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from operator import itemgetter
from types import CodeType
from typing import Any

from deerstore.errors import InvalidValueError
from deerstore.queries.checking import INT64, Check, all_one
from deerstore.queries.header import near
from deerstore.queries.model import Codec, CompiledStep, Parameter, Transform

__all__ = ["Binder", "build_binder"]

Binder = Callable[[Mapping[str, Any]], tuple[Any, ...]]

#: What holds for most values, over the name of a variable: such a value needs no second look.
_ORDINARY = {
    "text": "type({v}) is str and '\\0' not in {v} and {v}.isascii()",
    "int": f"type({{v}}) is int and {-INT64} <= {{v}} < {INT64}",
    "float": "type({v}) is float and isfinite({v})",
    "bool": "type({v}) is bool",
    "timestamp": "type({v}) is datetime and {v}.tzinfo is UTC",
    "bytes": "type({v}) is bytes",
}


def build_binder(
    query: str,
    declared: tuple[Parameter, ...],
    params: tuple[Parameter, ...],
    steps: tuple[CompiledStep, ...],
    codec: Codec,
) -> Binder:
    """The ``bind`` of one compiled query.

    ``declared`` are all parameters of the query, ``params`` those that this variant needs; the
    others may be given and are ignored.
    """
    names = tuple(parameter.name for parameter in params)

    def refuse(given: Mapping[str, Any]) -> None:
        _refuse(query, declared, names, given)

    def differ(place: int) -> InvalidValueError:
        return InvalidValueError(
            f"{query}: the lists of an ':each' step differ in length", field=names[place]
        )

    space: dict[str, Any] = {
        "UTC": UTC,
        "datetime": datetime,
        "differ": differ,
        "isfinite": math.isfinite,
        "refuse": refuse,
        "repeat": repeat,
    }
    source = [f"if len(given) != {len(params)}: refuse(given)"]
    if params:
        space["pick"] = itemgetter(*names)
        variables = ", ".join(f"v{place}" for place in range(len(params)))
        source += [
            "try:",
            f"    {variables} = pick(given)",
            "except KeyError:",
            "    refuse(given)",
            "    raise",
        ]
    source += _Writer(query, params, steps, codec, space).lines()
    # Made of positions, types and numbers.
    exec(_code("\n".join(["def bind(given):", *(f"    {line}" for line in source)])), space)  # noqa: S102
    bind: Binder = space["bind"]
    return bind


@cache
def _code(source: str) -> CodeType:
    """Many queries have the same parameters but for the names."""
    return compile(source, "<bind>", "exec")


def _refuse(
    query: str, declared: tuple[Parameter, ...], needed: tuple[str, ...], given: Mapping[str, Any]
) -> None:
    """Raise when a needed parameter is missing or one is given that the query does not have."""
    allowed = {parameter.name for parameter in declared}
    unknown = [name for name in given if name not in allowed]
    missing = [name for name in needed if name not in given]
    if unknown:
        found = near(unknown[0], missing or sorted(allowed))
        hint = f"; did you mean {found!r}?" if found else ""
        raise InvalidValueError(
            f"{query}: unknown parameter {unknown[0]!r}{hint}", field=unknown[0]
        )
    if missing:
        shown = ", ".join(repr(name) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise InvalidValueError(f"{query}: missing parameter{plural} {shown}", field=missing[0])


class _Writer:
    """Writes what is done with the values ``v0, v1, …``.

    Afterwards ``v…`` are the driver's arguments, and ``c…`` the driver's elements of the lists of
    which an ``:each`` step takes one after the other.
    """

    def __init__(
        self,
        query: str,
        params: tuple[Parameter, ...],
        steps: tuple[CompiledStep, ...],
        codec: Codec,
        space: dict[str, Any],
    ) -> None:
        self._query = query
        self._params = params
        self._codec = codec
        self._space = space
        self._steps = steps
        where = {parameter.name: place for place, parameter in enumerate(params)}
        # A carried value has no place: it is not known yet.
        self._orders = [[where.get(name) for name in step.order] for step in steps]
        self._whole = self._taken(each=False)
        self._parts = self._taken(each=True)

    def _taken(self, *, each: bool) -> set[int | None]:
        return {
            place
            for step, order in zip(self._steps, self._orders, strict=True)
            if step.each is each
            for place in order
        }

    def lines(self) -> Iterator[str]:
        """The lines of the function, behind those that pick the values."""
        for place, parameter in enumerate(self._params):
            self._space[f"check{place}"] = Check(self._query, parameter)
            encode = self._codec.encoders.get(parameter.type.base)
            if encode is not None:
                self._space[f"encode{place}"] = encode
            if parameter.type.is_list:
                yield from self._list(place, parameter, encode)
            else:
                yield from self._scalar(place, parameter, encode is not None)
        arguments = [
            self._rows(step, order) if step.each else _tuple(map(_argument, order))
            for step, order in zip(self._steps, self._orders, strict=True)
        ]
        for step, order in zip(self._steps, self._orders, strict=True):
            # A list that the statement names twice is as long as itself.
            lists = list(dict.fromkeys(filter(self._is_list, order))) if step.each else []
            if len(lists) > 1:
                lengths = " == ".join(f"len(c{place})" for place in lists)
                yield f"if not {lengths}: raise differ({lists[0]})"
        yield f"return {_tuple(arguments)}"

    def _scalar(self, place: int, parameter: Parameter, encoded: bool) -> Iterator[str]:
        base, nullable = parameter.type.base, parameter.type.nullable
        v = f"v{place}"
        work = []
        if base != "json":
            work.append(f"if not ({_ORDINARY[base].format(v=v)}): {v} = check{place}.scalar({v})")
        if encoded:
            work.append(f"{v} = encode{place}({v})")
        if not work:
            return
        if base == "timestamp" and encoded:
            yield f"t{place} = {v}"
            same = self._earlier_time(place)
            if same is not None:
                # The times of a call are often one moment.
                yield f"if {v} is t{same}: {v} = v{same}"
                yield f"elif {v} is not None:" if nullable else "else:"
                yield from (f"    {line}" for line in work)
                return
        if nullable:
            yield f"if {v} is not None:"
            work = [f"    {line}" for line in work]
        yield from work

    def _earlier_time(self, place: int) -> int | None:
        """The last time before ``place`` whose outcome, None included, may be taken over."""
        nullable = self._params[place].type.nullable
        for before in range(place - 1, -1, -1):
            kind = self._params[before].type
            if kind.base == "timestamp" and not kind.is_list and (nullable or not kind.nullable):
                return before
        return None

    def _list(self, place: int, parameter: Parameter, encode: Transform | None) -> Iterator[str]:
        kind = parameter.type
        v, c = f"v{place}", f"c{place}"
        if kind.base == "json":
            work = [f"if type({v}) is not list: {v} = check{place}.elements({v})"]
        else:
            # A batch of one is the most common one.
            ordinary = _ORDINARY[kind.base].format(v="one")
            work = [
                f"one = {v}[0] if type({v}) is list and len({v}) == 1 else None",
                f"if not ({ordinary}): {v} = check{place}.elements({v})",
            ]
        if encode is not None:
            self._space[f"each{place}"] = _elementwise(kind.base, kind.element_nullable, encode)
        each = v if encode is None else f"each{place}({v})"
        whole = self._codec.encoders.get(f"{kind.base}[]")
        if place in self._parts:
            work.append(f"{c} = {each}")
        if place in self._whole:
            if whole is not None:
                self._space[f"whole{place}"] = whole
                each = f"whole{place}({v})"
            elif encode is None:
                # The driver's own: the caller may change its list while a connection is awaited.
                each = f"[*{v}]"
            if each != v:
                work.append(f"{v} = {each}")
        if not kind.nullable:
            yield from work
            return
        yield f"if {v} is not None:"
        yield from (f"    {line}" for line in work)
        if place in self._parts:
            yield f"else: {c} = []"

    def _is_list(self, place: int | None) -> bool:
        return place is not None and self._params[place].type.is_list

    def _rows(self, step: CompiledStep, order: list[int | None]) -> str:
        columns = [
            f"c{place}" if self._is_list(place) else f"repeat({_argument(place)})"
            for place in order
        ]
        if not step.carried:
            return f"list(zip({', '.join(columns)}))"
        # The rows are made when the carried values are known, which may be on another thread and
        # more than once: from what was checked, whatever becomes of the caller's lists.
        kept = _tuple(
            f"tuple({column})" if self._is_list(place) else "None" if place is None else column
            for place, column in zip(order, columns, strict=True)
        )
        only = _tuple(
            f"c{place}[0]" if self._is_list(place) else _argument(place) for place in order
        )
        first = next(place for place in order if self._is_list(place))
        return f"[{only}] if len(c{first}) == 1 else {kept}"


def _argument(place: int | None) -> str:
    return "None" if place is None else f"v{place}"


def _tuple(items: Iterable[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"


def _elementwise(base: str, nullable: bool, encode: Transform) -> Callable[[list[Any]], list[Any]]:
    """An encoder of checked elements, one by one."""
    if base == "json" and not nullable:
        return lambda items: [encode(item) for item in items]

    def each(items: list[Any]) -> list[Any]:
        if base == "timestamp" and items and all_one(items):
            # The events of a batch happen at one moment.
            return [None if items[0] is None else encode(items[0])] * len(items)
        return [item if item is None else encode(item) for item in items]

    return each
