"""The catalog: a folder of query files as named handles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from deerstore.errors import InvalidValueError, NotFoundError, QueryFileError
from deerstore.queries.binding import build_binder
from deerstore.queries.compiler import Definition, Template
from deerstore.queries.decoding import build_decoder
from deerstore.queries.folders import engine_folders, read_folder
from deerstore.queries.header import near
from deerstore.queries.model import (
    ENGINES,
    Cardinality,
    Codec,
    Column,
    CompiledQuery,
    Parameter,
    Source,
)

__all__ = ["Definitions", "Query", "QueryCatalog", "UnknownQueryError", "load_queries"]

_Binding = tuple[tuple[str, str], ...]


class UnknownQueryError(NotFoundError, KeyError):
    """The catalog, or the engine's part of it, has no query of this name."""

    # KeyError would show the message's repr.
    __str__ = Exception.__str__


class Definitions(dict[str, Definition]):
    """A query's definitions by engine; ``load`` reads an engine that is not there yet."""

    def __init__(self, load: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, engine: str) -> Definition:
        if self._load is not None and engine in ENGINES:
            self._load(engine)
        found = self.get(engine)
        if found is None:
            raise KeyError(engine)
        return found


class Query:
    """A query by name: one handle for every engine, bound to one variant of it.

    ``params``, ``columns``, ``doc``, ``plan`` and ``choices`` are those of the first engine that
    has the query; :func:`~deerstore.queries.parity` tells whether the others agree.
    """

    __slots__ = ("_binding", "_bound", "_compiled", "_definitions", "_family", "_main")

    def __init__(
        self,
        definitions: Definitions,
        binding: _Binding | None = None,
        family: dict[_Binding, Query] | None = None,
    ) -> None:
        self._definitions = definitions
        self._main = next(iter(definitions.values()))
        if binding is None:
            binding = next(iter(self._main.templates))
        self._binding = binding
        self._family = {} if family is None else family
        self._family[binding] = self
        self._bound: dict[tuple[tuple[str, bool | str], ...], Query] = {}
        self._compiled: dict[str | Codec, CompiledQuery] = {}

    @property
    def name(self) -> str:
        """The name, as ``runs.get_run``."""
        return self._main.declared.name

    @property
    def cardinality(self) -> Cardinality:
        """What the caller gets: ``one``, ``optional``, ``many`` and so on."""
        return self._main.declared.cardinality

    @property
    def params(self) -> tuple[Parameter, ...]:
        """All declared parameters; a variant may need fewer."""
        return self._main.params

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The declared result columns, in order; None where none are declared."""
        return self._main.columns

    @property
    def doc(self) -> str:
        """What the query is for."""
        return self._main.declared.doc

    @property
    def plan(self) -> str:
        """The access path that the query is expected to take."""
        return self._main.declared.plan

    @property
    def writes(self) -> bool:
        """Whether this variant changes or locks rows, on any engine."""
        return any(self._template(one).writes for one in self._definitions.values())

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that have the query."""
        return tuple(self._definitions)

    @property
    def sources(self) -> dict[str, Source]:
        """File and line per engine."""
        return {engine: one.source for engine, one in self._definitions.items()}

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """The choices of each variant, the default first."""
        return {name: choices for name, (choices, _) in self._main.declared.variants.items()}

    @property
    def binding(self) -> dict[str, str]:
        """The choice of each variant that this handle is bound to."""
        return dict(self._binding)

    @property
    def variants(self) -> tuple[Query, ...]:
        """One handle per combination of choices; a query without variants has itself."""
        return tuple(self._handle(binding) for binding in self._main.templates)

    def variant(self, **choices: bool | str) -> Query:
        """This query with some variants chosen anew.

        A variant with the choices ``on`` and ``off`` also takes ``True`` and ``False``. Raises
        :class:`~deerstore.errors.InvalidValueError` for an unknown variant or choice.
        """
        key = tuple(choices.items())
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = self._chosen(choices)
        return found

    def compiled(self, target: str | Codec) -> CompiledQuery:
        """The statements for an engine; with a :class:`Codec`, values are encoded and decoded.

        The same object each time. Raises :class:`UnknownQueryError` when the engine's folder
        does not have the query.
        """
        found = self._compiled.get(target)
        if found is None:
            found = self._compiled[target] = self._compile(target)
        return found

    def definition(self, engine: str) -> Definition:
        """The query as the file of one engine has it."""
        try:
            return self._definitions[engine]
        except KeyError:
            have = ", ".join(f"{name} ({source})" for name, source in self.sources.items())
            raise UnknownQueryError(
                f"query {self.name!r} has no {engine} version; it has {have}"
            ) from None

    def _handle(self, binding: _Binding) -> Query:
        found = self._family.get(binding)
        return found if found is not None else Query(self._definitions, binding, self._family)

    def _chosen(self, choices: Mapping[str, bool | str]) -> Query:
        known = self.choices
        chosen = dict(self._binding)
        for name, choice in choices.items():
            if name not in known:
                found = near(name, list(known))
                have = ", ".join(known) or "none"
                hint = f"did you mean {found!r}?" if found else f"it has {have}"
                raise InvalidValueError(f"{self.name} has no variant {name!r}; {hint}", field=name)
            wanted = ("on" if choice else "off") if isinstance(choice, bool) else choice
            if wanted not in known[name]:
                raise InvalidValueError(
                    f"{self.name}: variant {name!r} has no choice {wanted!r}; "
                    f"it has {', '.join(known[name])}",
                    field=name,
                )
            chosen[name] = wanted
        return self._handle(tuple(sorted(chosen.items())))

    def _template(self, definition: Definition) -> Template:
        found = definition.templates.get(self._binding)
        if found is not None:
            return found
        # Engines that disagree on the variants: each takes those that it has.
        mine = dict(self._binding)
        for binding, template in definition.templates.items():
            if all(mine.get(name, choice) == choice for name, choice in binding):
                return template
        raise UnknownQueryError(
            f"query {self.name!r} has no {definition.engine} version of variant "
            + ", ".join(f"{name}={choice}" for name, choice in self._binding)
        )

    def _compile(self, target: str | Codec) -> CompiledQuery:
        codec = Codec(target) if isinstance(target, str) else target
        definition = self.definition(codec.engine)
        template = self._template(definition)
        return CompiledQuery(
            name=self.name,
            engine=codec.engine,
            cardinality=definition.declared.cardinality,
            writes=template.writes,
            params=template.params,
            columns=definition.columns,
            steps=template.steps,
            result_step=template.result_step,
            source=definition.source,
            bind=build_binder(self.name, definition.params, template.params, template.steps, codec),
            decoder=build_decoder(definition.columns, codec),
        )

    def __repr__(self) -> str:
        shown = "".join(f" {name}={choice}" for name, choice in self._binding)
        return f"<Query {self.name} :{self.cardinality}{shown}>"


class QueryCatalog(Mapping[str, Query]):
    """Queries by name, in the order of the files. Read-only; made by :func:`load_queries`."""

    def __init__(self, queries: Iterable[Query], *, path: str, engines: Sequence[str]) -> None:
        self._queries = {query.name: query for query in queries}
        self.path = path
        self.engines = tuple(engines)
        """The engines whose folders were read."""

    def names(self) -> tuple[str, ...]:
        """All names, in the order of the files."""
        return tuple(self._queries)

    def __getitem__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            found = near(str(name), list(self._queries))
            hint = f"; did you mean {found!r}?" if found else ""
            raise UnknownQueryError(f"no query {name!r} in {self.path}{hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def __repr__(self) -> str:
        return f"<QueryCatalog {self.path}: {len(self)} queries, {', '.join(self.engines)}>"


def load_queries(path: str | os.PathLike[str], *, engines: Sequence[str] = ENGINES) -> QueryCatalog:
    """Read and compile ``<path>/<engine>/*.sql``. Touches files only, never a database.

    ``engines`` are the folders to look for: ``sqlite``, ``postgres``, ``mysql``. A folder that
    is not there is skipped, as long as one is; with a single engine asked for, it must be.
    Raises :class:`~deerstore.errors.QueryFileError` for the first mistake, with file, line,
    column and a caret.
    """
    root = Path(path)
    for engine in engines:
        if engine not in ENGINES:
            raise InvalidValueError(
                f"unknown engine {engine!r}; known are {', '.join(ENGINES)}", field="engines"
            )
    present = engine_folders(root, engines)
    definitions: dict[str, Definitions] = {}
    for engine in present:
        for definition in read_folder(root / engine, engine):
            definitions.setdefault(definition.declared.name, Definitions())[engine] = definition
    if not definitions:
        shown = ", ".join(str(root / engine) for engine in present)
        raise QueryFileError(f"no query in {shown}", file=str(root))
    return QueryCatalog(
        (Query(one) for one in definitions.values()), path=str(root), engines=present
    )
