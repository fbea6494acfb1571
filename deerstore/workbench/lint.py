"""The rules for SQL that the loader does not make: how a statement is to be written.

::

    python -m deerstore.workbench.lint               deerstore's own files
    python -m deerstore.workbench.lint queries/      a folder of a gateway's own

- no ``SELECT *``, no ``RETURNING *``
- an INSERT names its columns
- a LIMIT (or FETCH) has an ORDER BY in the same SELECT, unless that gives constants only
- an UPDATE or DELETE has a WHERE
- the declared result columns are those of the statement, in order
- ``doc``, ``plan`` and, where rows come back, ``column`` lines are there (``--complete``)
- the query is the same query on every engine

Everything is read from the text of every variant; no database is asked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deerstore.errors import QueryFileError
from deerstore.queries import ENGINES, CompiledStep, QueryCatalog, load_queries, parity
from deerstore.queries.compiler import Definition
from deerstore.queries.lexer import SourceText, tokenize

__all__ = ["Finding", "lint", "main", "own_catalogs"]

_ROWS = ("one", "optional", "many", "value", "stream")
_ENDS_LIST = frozenset(
    {"FROM", "WHERE", "UNION", "INTERSECT", "EXCEPT", "ORDER", "GROUP", "HAVING", "LIMIT", "FOR"}
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A place where a rule is broken."""

    place: str
    query: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.query}: {self.message}"


@dataclass(frozen=True, slots=True)
class _Word:
    """A token that is no white space: as written, in capitals, and in which brackets it stands."""

    kind: str
    text: str
    upper: str
    scope: tuple[int, ...]


def lint(catalog: QueryCatalog, *, complete: bool = False) -> list[Finding]:
    """Every broken rule, in the order of the queries.

    ``complete`` asks for ``doc``, ``plan`` and ``column`` lines too, as deerstore's own files
    have them.
    """
    findings: dict[Finding, None] = {}
    for query in catalog.values():
        for engine in query.engines:
            definition = query.definition(engine)
            for message in _header(definition) if complete else ():
                findings[Finding(str(definition.source), query.name, message)] = None
            for template in definition.templates.values():
                for index, step in enumerate(template.steps):
                    place = f"{definition.source.file}:{step.line}"
                    words = _words(step, engine)
                    messages = list(_statement(words))
                    if index == template.result_step:
                        messages += _columns(definition, words)
                    for message in messages:
                        findings[Finding(place, query.name, message)] = None
    for difference in parity(catalog):
        source = next(iter(catalog[difference.query].sources.values()))
        message = f"differs on {difference.engine}: {difference.message}"
        findings[Finding(str(source), difference.query, message)] = None
    return list(findings)


def _header(definition: Definition) -> Iterator[str]:
    declared = definition.declared
    if not declared.doc:
        yield "no '-- doc:' line"
    if not declared.plan:
        yield "no '-- plan:' line"
    if declared.cardinality in _ROWS and definition.columns is None:
        yield "no '-- column' lines"


def _words(step: CompiledStep, engine: str) -> list[_Word]:
    text = step.sql.replace("%%", "%") if engine == "mysql" else step.sql
    words: list[_Word] = []
    scope: list[int] = []
    brackets = 0
    for kind, start, end in tokenize(SourceText(text, ""), engine):
        if kind in ("space", "line", "block", "exec"):
            continue
        word = text[start:end]
        if word == ")" and scope:
            scope.pop()
        words.append(_Word(kind, word, word.upper() if kind == "word" else word, tuple(scope)))
        if word == "(":
            brackets += 1
            scope.append(brackets)
    return words


def _statement(words: list[_Word]) -> Iterator[str]:
    for index, word in enumerate(words):
        before = words[index - 1].upper if index else ""
        if word.text == "*" and before in ("SELECT", "DISTINCT", "ALL", "RETURNING", ",", "."):
            yield f"'{before} *' in place of the columns' names"
        if word.kind != "word":
            continue
        if word.upper == "INTO" and _verb(words, index) in ("INSERT", "REPLACE"):
            if not _names_columns(words, index):
                yield "an INSERT that does not name its columns"
        elif word.upper in ("LIMIT", "FETCH") and not _ordered(words, index):
            yield f"a {word.upper} without an ORDER BY"
        elif word.upper in ("UPDATE", "DELETE") and not _bounded(words, index):
            yield f"{'an' if word.upper == 'UPDATE' else 'a'} {word.upper} without a WHERE"


def _verb(words: list[_Word], index: int) -> str:
    """The verb before INTO, past IGNORE and OR REPLACE."""
    for word in reversed(words[:index]):
        if word.upper in ("INSERT", "REPLACE", "SELECT", "MERGE"):
            return word.upper
    return ""


def _names_columns(words: list[_Word], index: int) -> bool:
    for position in range(index + 1, len(words)):
        word = words[position]
        if word.text == "(":
            inner = words[position + 1].upper if position + 1 < len(words) else ""
            return inner not in ("SELECT", "WITH", "VALUES")
        if word.upper in ("VALUES", "SELECT", "DEFAULT", "SET", "WITH"):
            return word.upper == "SET"
    return False


def _ordered(words: list[_Word], index: int) -> bool:
    """Whether an ORDER BY stands before this LIMIT, in the same brackets and the same SELECT."""
    scope = words[index].scope
    for position in range(index - 1, -1, -1):
        word = words[position]
        if word.scope != scope:
            continue
        if word.upper == "BY" and words[position - 1].upper == "ORDER":
            return True
        if word.upper == "SELECT":
            return _gives_constants(words, position)
        if word.upper in ("UPDATE", "DELETE"):
            return False
    return False


def _gives_constants(words: list[_Word], index: int) -> bool:
    """Whether a SELECT gives the same row whichever it finds, as a probe for existence does."""
    for word in words[index + 1 :]:
        if word.upper == "FROM":
            return True
        if word.kind not in ("number", "string") and word.text != ",":
            return False
    return True


def _bounded(words: list[_Word], index: int) -> bool:
    """Whether this UPDATE or DELETE has a WHERE, or is only a part of another statement."""
    before = words[index - 1].upper if index else ""
    # FOR UPDATE, KEY UPDATE, DO UPDATE, ON UPDATE and ON DELETE.
    if before not in ("", "(", ")"):
        return True
    scope = words[index].scope
    for word in words[index + 1 :]:
        if word.scope[: len(scope)] != scope:
            return False
        if word.scope == scope and word.upper == "WHERE":
            return True
    return False


def _columns(definition: Definition, words: list[_Word]) -> list[str]:
    """How the names that the statement gives its columns differ from the declared ones."""
    declared = [column.name for column in definition.columns or ()]
    given = _given_columns(words)
    if not declared or given is None or given == declared:
        return []
    if len(given) != len(declared):
        return [f"{len(declared)} columns are declared, the statement gives {len(given)}"]
    return [
        f"column {number} is declared as {want!r}, the statement calls it {have!r}"
        for number, (want, have) in enumerate(zip(declared, given, strict=True), start=1)
        if want != have
    ]


def _given_columns(words: list[_Word]) -> list[str] | None:
    """The names of the result columns; None for a statement whose columns are not written out."""
    begin = next((i for i, w in enumerate(words) if w.upper == "RETURNING" and not w.scope), None)
    if begin is None:
        outer = [i for i, word in enumerate(words) if word.upper == "SELECT" and not word.scope]
        if not outer:
            return None
        begin = outer[0]
    items: list[list[_Word]] = [[]]
    for word in words[begin + 1 :]:
        if not word.scope and word.upper in _ENDS_LIST:
            break
        if not word.scope and word.text == ",":
            items.append([])
        elif word.upper not in ("DISTINCT", "ALL") or items[-1]:
            items[-1].append(word)
    return [_name(item) for item in items]


def _name(item: list[_Word]) -> str:
    if not item:
        return ""
    last = item[-1]
    if last.kind == "quoted":
        return last.text[1:-1]
    return last.text


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 1 when a rule is broken or a file cannot be loaded."""
    parser = argparse.ArgumentParser(
        prog="python -m deerstore.workbench.lint",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", nargs="?", help="folder with sqlite/, postgres/, mysql/")
    parser.add_argument(
        "--complete", action="store_true", help="also ask for doc, plan and column lines"
    )
    given = parser.parse_args(arguments)
    complete = given.complete or given.path is None
    broken = 0
    try:
        catalogs = own_catalogs() if given.path is None else [load_queries(given.path)]
    except QueryFileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for catalog in catalogs:
        findings = lint(catalog, complete=complete)
        for finding in findings:
            sys.stderr.write(f"{finding}\n")
        variants = sum(len(query.variants) for query in catalog.values())
        shown = ", ".join(catalog.engines)
        sys.stdout.write(
            f"{len(catalog)} queries, {variants} variants, {shown}: {len(findings)} findings\n"
        )
        broken += len(findings)
    return 1 if broken else 0


def own_catalogs() -> list[QueryCatalog]:
    """The queries of deerstore itself: those of all engines, and what each engine alone is asked.

    The latter stand in folders of their own, engine by engine: they have no counterpart that they
    could be compared with.
    """
    root = Path(__file__).resolve().parent.parent / "sql"
    return [
        load_queries(root),
        *(
            load_queries(folder, engines=(engine,))
            for folder in sorted(root.iterdir())
            for engine in ENGINES
            if (folder / engine).is_dir()
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
