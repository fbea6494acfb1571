"""SQLite for the schema room."""

# ruff: noqa: D102 - what each method means stands in the base class
from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deerstore.errors import SchemaError
from deerstore.queries import Codec
from deerstore.schema.engines.base import LOCK_SLICE, SchemaEngine, SetupLock

__all__ = ["SqliteEngine"]


def _text_time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


class SqliteEngine(SchemaEngine):
    """A connection to the database file."""

    name = "sqlite"
    driver = sqlite3
    codec = Codec("sqlite", encoders={"timestamp": _text_time})
    # A plain BEGIN would read first and then fail to become a writer.
    begin_statement = "BEGIN IMMEDIATE"

    @property
    def _path(self) -> Path:
        return Path(self.config.targets.sqlite_path())

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=LOCK_SLICE, isolation_level=None)
        # The file's journal mode is left alone: a database that is refused must stay untouched.
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def place(self) -> str:
        return str(self._path)

    def database_exists(self) -> bool:
        return self._path.exists()

    def create_database(self) -> None:
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SchemaError(
                f"the folder {folder} does not exist and cannot be created "
                f"({error.strerror}); run: mkdir -p '{folder}'"
            ) from error

    def lock(self) -> SetupLock:
        return _FileLock(self._path)

    def others_change_schema(self) -> bool:
        try:
            self._execute(self.begin_statement, None)
            self._execute("ROLLBACK", None)
        except sqlite3.OperationalError as error:
            return _is_busy(error)
        return False

    def _execute(self, sql: str, args: Sequence[Any] | None) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.connection.execute(sql, args or ()).fetchall()
        return rows

    def is_lock_conflict(self, error: Exception) -> bool:
        return _is_busy(error)

    def message(self, error: BaseException) -> str:
        name = getattr(error, "sqlite_errorname", None)
        return f"{error} ({name})" if name else str(error)

    def is_disconnect(self, error: BaseException) -> bool:  # noqa: ARG002 - a file has no wire
        return False


class _FileLock(SetupLock):
    """An exclusive transaction on an empty SQLite file beside the database.

    SQLite's own file locks work on every platform, between processes and between threads, and the
    operating system frees them with the process. The database itself cannot serve: its lock
    would shut out the checkpointer's setup, which runs inside ours. The file stays; deleting it
    while another process opens it would give two processes a lock each.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-setup.lock")
        self._connection: sqlite3.Connection | None = None

    def try_acquire(self) -> bool:
        connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if _is_busy(error):
                return False
            raise
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return True

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            connection.close()


def _is_busy(error: BaseException) -> bool:
    # The lower eight bits are the primary result code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
