"""From declared queries to statements in the driver's style, one set per variant."""

from __future__ import annotations

from dataclasses import dataclass, field

from deerstore.queries.header import DeclaredQuery, DeclaredStep, near
from deerstore.queries.lexer import SourceText, Token
from deerstore.queries.model import Column, CompiledStep, Parameter, Source
from deerstore.queries.variants import MarkedToken, bindings, mark, select

__all__ = ["Definition", "Template", "compile_query"]

_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})
_READING = frozenset({"SELECT", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "PRAGMA"})
_MAIN = _CHANGING | {"SELECT", "VALUES", "TABLE"}
_ROWS = ("one", "optional", "many", "value", "stream")
_BLANK = ("space", "line", "block")


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
    for binding in bindings(query):
        key = tuple(sorted(binding.items()))
        definition.templates[key] = _template(source, engine, query, marked, binding)
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


def _check_parameters(
    source: SourceText, query: DeclaredQuery, marked: list[list[MarkedToken]]
) -> None:
    text = source.text
    known = {name: parameter.type.is_list for name, (parameter, _) in query.params.items()}
    carried: dict[str, bool] = {}
    used: set[str] = set()
    placeholders = {
        text[start:end] for tokens in marked for (kind, start, end), _ in tokens if kind == "param"
    }
    for step, tokens in zip(query.steps, marked, strict=True):
        has_list = False
        for (kind, start, end), _ in tokens:
            if kind != "param":
                continue
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
    engine: str,
    query: DeclaredQuery,
    marked: list[list[MarkedToken]],
    binding: dict[str, str],
) -> Template:
    steps: list[CompiledStep] = []
    needed: dict[str, None] = {}
    for step, tokens in zip(query.steps, marked, strict=True):
        chosen = select(tokens, binding) if binding else [token for token, _ in tokens]
        if all(token[0] in _BLANK for token in chosen):
            shown = ", ".join(f"{name}={choice}" for name, choice in binding.items())
            raise source.error(f"no SQL is left when {shown}", *step.place)
        label = f"{query.name} {step.name}" if len(query.steps) > 1 and step.name else query.name
        sql, order = _render(source.text, engine, label, chosen)
        keyword, writes, returns_rows = classify(source.text, chosen)
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
        if declared.returns and not step.returns_rows:
            place = next(iter(declared.returns.values()))
            raise source.error(f"step {step.name!r} returns no row to take names from", *place)
    last = len(steps) - 1
    if query.cardinality in _ROWS:
        for index in range(last, -1, -1):
            if steps[index].returns_rows and not steps[index].each:
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


def _render(text: str, engine: str, label: str, tokens: list[Token]) -> tuple[str, tuple[str, ...]]:
    """The statement for the driver and the names of its arguments, in order."""
    numbers: dict[str, int] = {}
    order: list[str] = []
    parts: list[str] = []
    # Newer PostgreSQL releases cut what stands before the first word out of the text that
    # pg_stat_statements keeps; MySQL wants an optimizer hint right behind the first word.
    pending = f" /* {label} */" if engine == "postgres" else ""
    if not pending:
        parts.append(f"/* {label} */ ")
    blank = True
    for kind, start, end in tokens:
        if kind == "space":
            space = "\n" if "\n" in text[start:end] else " "
            if not blank:
                parts.append(space)
            elif space == "\n" and parts and parts[-1] == " ":
                parts[-1] = space
            blank = True
            continue
        blank = False
        if kind == "param":
            name = text[start + 1 : end]
            if engine == "mysql":
                parts.append("%s")
                order.append(name)
                continue
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                order.append(name)
            parts.append(f"{'$' if engine == 'postgres' else '?'}{numbers[name]}")
            continue
        piece = text[start:end]
        parts.append(piece.replace("%", "%%") if engine == "mysql" else piece)
        if pending and kind == "word":
            parts.append(pending)
            pending = ""
    return "".join(parts).rstrip() + pending, tuple(order)


def classify(text: str, tokens: list[Token]) -> tuple[str, bool, bool]:
    """Verb, whether the statement writes or locks, and whether it gives rows."""
    first = verb = ""
    before = ("", "")
    depth = 0
    writes = returning = False
    for kind, start, end in tokens:
        if kind in _BLANK:
            continue
        word = text[start:end].upper()
        if kind != "word":
            depth += (word == "(") - (word == ")")
            writes = writes or (word == "=" and first == "PRAGMA")
        elif not first:
            first = word
            verb = "" if word == "WITH" else word
        elif not verb and depth == 0 and word in _MAIN:
            # Behind WITH, RECURSIVE or a comma stands a name, even one that is a keyword.
            if before[1] not in ("WITH", ",", "RECURSIVE"):
                verb = word
        elif depth == 0 and word == "RETURNING":
            returning = True
        else:
            writes = writes or _betrays_write(word, before, first)
        before = (before[1], word)
    writes = writes or verb not in _READING
    return verb or first, writes, returning if verb in _CHANGING else True


def _betrays_write(word: str, before: tuple[str, str], first: str) -> bool:
    if word in _CHANGING and before[1] == "(":
        return before[0] in ("AS", "MATERIALIZED")
    if word in ("UPDATE", "SHARE"):
        # FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, LOCK IN SHARE MODE
        return before[1] in ("FOR", "KEY", "IN")
    return (word == "INTO" and first == "SELECT") or (word == "ANALYZE" and first == "EXPLAIN")
