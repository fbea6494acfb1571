"""The declared types of result columns, which sqlite3 keeps to itself.

Its converters would tell them, but those belong to the whole process. SQLite describes the columns
of a view: a temporary one, in no file, gone at once. Each statement is asked about once per
database, after its first run, and again when its columns have other names.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress

from deerstore.database.undeclared import Kinds
from deerstore.queries import CompiledStep, outlines

__all__ = ["DeclaredTypes"]

_VIEW = "temp.deerstore_outline"
_WORD = re.compile(r"\w+")
_KINDS = {
    "DATETIME": "timestamp",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "DATE": "date",
    "BOOLEAN": "bool",
    "BOOL": "bool",
}
_TIMES = ("timestamp", "date")


class DeclaredTypes:
    """What one database file says of the columns of statements. Shared by all its connections."""

    def __init__(self) -> None:
        self._known: dict[CompiledStep, tuple[tuple[str, ...], Kinds]] = {}

    def of(self, raw: sqlite3.Connection, step: CompiledStep, names: tuple[str, ...]) -> Kinds:
        """The kinds of a statement's columns. Runs on the connection's thread."""
        known = self._known.get(step)
        if known is None or known[0] != names:
            try:
                known = (names, _ask(raw, step, len(names)))
            except sqlite3.Error:
                # Interrupted, or the file is locked: the rows are there, the next call asks again.
                return ()
            self._known[step] = known
        return known[1]


def _ask(raw: sqlite3.Connection, step: CompiledStep, count: int) -> Kinds:
    kinds, *more = [_described(raw, outline) for outline in outlines(step)] or [()]
    if len(kinds) != count:
        return ()
    for bare in more:
        if len(bare) == count:
            # Only times: no engine's driver knows a truth value that was computed.
            kinds = tuple(
                here or (there if there in _TIMES else None)
                for here, there in zip(kinds, bare, strict=True)
            )
    return kinds


def _described(raw: sqlite3.Connection, outline: str) -> Kinds:
    cursor = raw.cursor()
    cursor.row_factory = None
    try:
        cursor.execute(f"DROP VIEW IF EXISTS {_VIEW}")
        cursor.execute(f"CREATE TEMP VIEW deerstore_outline AS {outline}")
        columns = cursor.execute("PRAGMA temp.table_info(deerstore_outline)").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # Not everything that gives rows can be a view; its values stay as they are stored.
        return ()
    finally:
        with suppress(sqlite3.Error):
            cursor.execute(f"DROP VIEW IF EXISTS {_VIEW}")
    return tuple(_kind(column[2]) for column in columns)


def _kind(declared: str) -> str | None:
    word = _WORD.match(declared)
    return _KINDS.get(word.group().upper()) if word else None
