"""A catalog that reads no file before one of its queries is needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from deerstore.queries.catalog import Definitions, Query, QueryCatalog
from deerstore.queries.compiler import Definition
from deerstore.queries.folders import query_files, read_file
from deerstore.queries.model import ENGINES

__all__ = ["LazyCatalog"]


class LazyCatalog(QueryCatalog):
    """A catalog that reads a file when the first of its queries is needed.

    For files that are known to be right and to hold the same queries on each engine, as
    deerstore's own: a process with one engine does not pay for the others, and opening a bundle
    not for what it does not use. The query ``runs.get_run`` is looked for in ``runs.sql`` first.
    May be used from several threads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__((), path=str(path), engines=())
        self._root = Path(path)
        self._definitions: dict[str, Definitions] = {}
        self._found: dict[str, dict[str, Definition]] = {}
        self._seen: set[Path] = set()
        self._turn = threading.RLock()

    def load(self, engine: str) -> LazyCatalog:
        """Take ``engine`` among those whose queries are read; gives the catalog."""
        with self._turn:
            if engine not in self.engines:
                self.engines = (*self.engines, engine)
                self._found[engine] = {}
        return self

    def names(self) -> tuple[str, ...]:
        """All names, in the order of the files."""
        return tuple(self)

    def __getitem__(self, name: str) -> Query:
        query = self._queries.get(name)
        if query is None:
            self._look_for(name, self._first())
            query = super().__getitem__(name)
        return query

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _first(self) -> str:
        if not self.engines:
            self.load(ENGINES[0])
        return self.engines[0]

    def _all(self) -> list[str]:
        engine = self._first()
        with self._turn:
            names: list[str] = []
            for file in query_files(self._root / engine):
                self._read(file, engine)
                names += [
                    name
                    for name, one in self._found[engine].items()
                    if one.source.file == str(file)
                ]
        return names

    def _look_for(self, name: str, engine: str) -> None:
        with self._turn:
            self.load(engine)
            likely = self._root / engine / f"{str(name).partition('.')[0]}.sql"
            if likely.is_file():
                self._read(likely, engine)
            if name not in self._found[engine]:
                for file in query_files(self._root / engine):
                    self._read(file, engine)

    def _read(self, file: Path, engine: str) -> None:
        if file in self._seen:
            return
        found: dict[str, Definition] = {}
        read_file(file, engine, found)
        self._seen.add(file)
        self._found[engine] |= found
        for name, definition in found.items():
            if name not in self._definitions:
                self._definitions[name] = Definitions(
                    lambda other, name=name: self._look_for(name, other)  # type: ignore[misc]
                )
            self._definitions[name][engine] = definition
            if name not in self._queries:
                self._queries[name] = Query(self._definitions[name])
