"""From declared queries to statements in the driver's style, one set per variant."""

from __future__ import annotations

from dataclasses import dataclass, field

from deerstore.queries.header import DeclaredQuery, DeclaredStep, near
from deerstore.queries.lexer import SourceText
from deerstore.queries.model import Column, CompiledStep, Parameter, Source
from deerstore.queries.statements import Statement
from deerstore.queries.variants import Run, bindings, mark

__all__ = ["Definition", "Template", "compile_query"]

_ROWS = ("one", "optional", "many", "value", "stream")


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """One variant of a query for one engine, before an engine's codec is known."""

    steps: tuple[CompiledStep, ...]
    params: tuple[Parameter, ...]
    writes: bool
    result_step: int


@dataclass(slots=True, eq=False)
class Definition:
    """A query as one engine's file has it."""

    declared: DeclaredQuery
    engine: str
    source: Source
    params: tuple[Parameter, ...]
    columns: tuple[Column, ...] | None
    templates: dict[tuple[tuple[str, str], ...], Template] = field(default_factory=dict)
    """By the sorted choices."""


def compile_query(source: SourceText, engine: str, query: DeclaredQuery) -> Definition:
    """Every variant of ``query``. Raises ``QueryFileError`` for what does not fit together."""
    columns = tuple(column for column, _ in query.columns.values()) or None
    definition = Definition(
        declared=query,
        engine=engine,
        source=Source(source.file, source.line_of(query.place[0])),
        params=tuple(parameter for parameter, _ in query.params.values()),
        columns=columns,
    )
    _check_shape(source, query)
    used_variants: set[str] = set()
    marked = [mark(source, engine, step.tokens, query, used_variants) for step in query.steps]
    for name, (_, place) in query.variants.items():
        if name not in used_variants:
            raise source.error(f"variant {name!r} is declared but no block uses it", *place)
    _check_parameters(source, query, marked)
    types = {name: parameter.type for name, (parameter, _) in query.params.items()}
    statements = [Statement(source.text, engine, runs, types) for runs in marked]
    for binding in bindings(query):
        key = tuple(sorted(binding.items()))
        definition.templates[key] = _template(source, query, statements, binding)
    return definition


def _check_shape(source: SourceText, query: DeclaredQuery) -> None:
    if query.columns and query.cardinality in ("affected", "exec"):
        place = next(iter(query.columns.values()))[1]
        raise source.error(f"a ':{query.cardinality}' query has no result columns", *place)
    if query.cardinality == "value" and len(query.columns) > 1:
        place = list(query.columns.values())[1][1]
        raise source.error("a ':value' query has one result column", *place)
    if query.cardinality == "stream" and len(query.steps) > 1:
        raise source.error("a ':stream' query is one statement", *query.steps[1].place)
    for step in query.steps:
        if step.each and step.returns:
            place = next(iter(step.returns.values()))
            raise source.error("an ':each' step returns no row to take names from", *place)


def _check_parameters(source: SourceText, query: DeclaredQuery, marked: list[list[Run]]) -> None:
    text = source.text
    known = {name: parameter.type.is_list for name, (parameter, _) in query.params.items()}
    carried: dict[str, bool] = {}
    used: set[str] = set()
    spots = [
        [(start, end) for _, run in runs for kind, start, end in run if kind == "param"]
        for runs in marked
    ]
    placeholders = {text[start:end] for places in spots for start, end in places}
    for step, places in zip(query.steps, spots, strict=True):
        has_list = False
        for start, end in places:
            name = text[start + 1 : end]
            if name not in known and name not in carried:
                # A mistyped name leaves the right one unused.
                idle = [one for one in (*known, *carried) if f":{one}" not in placeholders]
                raise source.error(_undeclared(name, idle, query), start, end)
            used.add(name)
            has_list = has_list or known.get(name, False)
        if step.each and not has_list:
            raise source.error("an ':each' step needs a list parameter", *step.place)
        carried.update(dict.fromkeys(step.returns, False))
    for name, (_, place) in query.params.items():
        if name not in used:
            message = f"parameter {name!r} is declared but never used"
            if any(f":{name}" in text[step.begins : _end(step)] for step in query.steps):
                message += (
                    "; a colon inside a string, a comment or a slice such as a[:n] is no "
                    "placeholder (for a slice write a[(:n)])"
                )
            raise source.error(message, *place)
    for step in query.steps:
        for name, place in step.returns.items():
            if name not in used:
                raise source.error(f"no later step uses {name!r}", *place)


def _end(step: DeclaredStep) -> int:
    return step.tokens[-1][2]


def _undeclared(name: str, idle: list[str], query: DeclaredQuery) -> str:
    if any(name in step.returns for step in query.steps):
        return f"{name!r} is not known yet: the step that returns it comes later"
    found = near(name, idle)
    hint = f"; did you mean ':{found}'?" if found else f"; add '-- param {name}: type'"
    return f"parameter {name!r} is not declared{hint}"


def _template(
    source: SourceText,
    query: DeclaredQuery,
    statements: list[Statement],
    binding: dict[str, str],
) -> Template:
    steps: list[CompiledStep] = []
    needed: dict[str, None] = {}
    lists = {name for name, (parameter, _) in query.params.items() if parameter.type.is_list}
    shown = ", ".join(f"{name}={choice}" for name, choice in binding.items())
    for step, statement in zip(query.steps, statements, strict=True):
        if statement.is_empty(binding):
            raise source.error(f"no SQL is left when {shown}", *step.place)
        label = f"{query.name} {step.name}" if len(query.steps) > 1 and step.name else query.name
        sql, order = statement.render(label, binding)
        if step.each and lists.isdisjoint(order):
            raise source.error(f"an ':each' step needs a list parameter when {shown}", *step.place)
        keyword, writes, returns_rows = statement.nature(binding)
        needed.update(dict.fromkeys(name for name in order if name in query.params))
        steps.append(
            CompiledStep(
                name=step.name,
                sql=sql,
                order=order,
                keyword=keyword,
                each=step.each,
                writes=writes,
                returns_rows=returns_rows,
                returns=tuple(step.returns),
                gives_id=statement.sets_id and not returns_rows and len(step.returns) == 1,
                carried=tuple(
                    (position, name)
                    for position, name in enumerate(order)
                    if name not in query.params
                ),
                line=source.line_of(step.begins),
            )
        )
    return Template(
        steps=tuple(steps),
        params=tuple(query.params[name][0] for name in needed),
        writes=any(step.writes for step in steps),
        result_step=_result_step(source, query, steps),
    )


def _result_step(source: SourceText, query: DeclaredQuery, steps: list[CompiledStep]) -> int:
    for declared, step in zip(query.steps, steps, strict=True):
        if declared.returns and not (step.returns_rows or step.gives_id):
            place = next(iter(declared.returns.values()))
            raise source.error(f"step {step.name!r} returns no row to take names from", *place)
    last = len(steps) - 1
    if query.cardinality in _ROWS:
        for index in range(last, -1, -1):
            step = steps[index]
            if (step.returns_rows or step.gives_id) and not step.each:
                return index
        raise source.error(
            f"':{query.cardinality}' wants rows, and this {steps[last].keyword} returns none",
            *query.place,
        )
    if query.cardinality == "affected" and steps[last].keyword in ("SELECT", "VALUES", "TABLE"):
        raise source.error(
            f"':affected' counts changed rows, and this {steps[last].keyword} changes none",
            *query.place,
        )
    return last
