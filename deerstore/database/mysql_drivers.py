"""aiomysql and asyncmy, made alike."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from deerstore.database.codecs import decimal
from deerstore.database.mysql_bulk import is_uniform
from deerstore.database.mysql_text import BulkInsert, mogrify
from deerstore.database.undeclared import Kinds

__all__ = ["Driver", "described", "driver_named"]

_FOUND_ROWS = 1 << 1
"""Client flag: an UPDATE counts the rows it matched, not only those it changed."""
_MULTI_STATEMENTS = 1 << 16
_TINY, _TIMESTAMP, _DATETIME = 1, 7, 12
"""Types of columns in the protocol, the same in both drivers."""
_KINDS = {_TINY: "bool", _TIMESTAMP: "timestamp", _DATETIME: "timestamp"}


class Driver(ABC):
    """What the facade needs of a MySQL driver."""

    errors: tuple[type[Exception], ...]

    @abstractmethod
    async def connect(self, kwargs: Mapping[str, Any]) -> Any:
        """A connection in autocommit mode that takes one statement at a time."""

    @abstractmethod
    async def cursor(self, raw: Any) -> Any:
        """A cursor that reads a whole result at once; may be used for many statements."""

    @abstractmethod
    async def streaming_cursor(self, raw: Any) -> Any:
        """A cursor that reads rows as they are asked for."""

    @abstractmethod
    async def execute(self, raw: Any, cursor: Any, sql: str, args: Sequence[Any]) -> None:
        """Run one statement with ``%s`` placeholders."""

    async def insert_many(
        self, raw: Any, cursor: Any, insert: BulkInsert, rows: Sequence[Sequence[Any]]
    ) -> int:
        """Insert all rows in as few trips as possible. Gives how many they were."""
        count = 0
        for text in insert.statements(rows, raw):
            await cursor.execute(text)
            count += cursor.rowcount
        return count

    @abstractmethod
    def is_closed(self, raw: Any) -> bool:
        """Whether either side has closed the connection."""


class _AioMySQL(Driver):
    def __init__(self) -> None:
        import aiomysql
        from pymysql.constants import FIELD_TYPE
        from pymysql.converters import decoders

        from deerstore.database.mysql_results import ChunkedConnection

        class QuietConnection(ChunkedConnection):
            """The driver's cursors ask for the texts of warnings: a trip more, with values in.

            And it speaks up about a connection that was forgotten until its event loop is closed.
            """

            async def show_warnings(self) -> None:
                return None

            def __del__(self) -> None:
                # A closed loop closes nothing: the transport's own end takes the socket with it.
                writer = getattr(self, "_writer", None)
                if writer is not None and not self._loop.is_closed():
                    super().__del__()

        self._connection = QuietConnection
        self._layouts: dict[str, Any] = {}
        self._streaming = aiomysql.SSCursor
        self.errors = (aiomysql.Error, aiomysql.Warning)
        self._decoders = {
            **decoders,
            FIELD_TYPE.DATETIME: _datetime,
            FIELD_TYPE.TIMESTAMP: _datetime,
            FIELD_TYPE.DECIMAL: decimal,
            FIELD_TYPE.NEWDECIMAL: decimal,
        }

    async def connect(self, kwargs: Mapping[str, Any]) -> Any:
        raw = self._connection(
            **kwargs, autocommit=True, client_flag=_FOUND_ROWS, conv=self._decoders
        )
        # The driver adds this flag by itself.
        raw.client_flag &= ~_MULTI_STATEMENTS
        try:
            # Not connected yet: the ping does it.
            await raw.ping()
        except BaseException:
            raw.close()
            raise
        raw.read_in_chunks(self._layouts)
        return raw

    async def cursor(self, raw: Any) -> Any:
        return await raw.cursor()

    async def streaming_cursor(self, raw: Any) -> Any:
        return await raw.cursor(self._streaming)

    async def execute(self, raw: Any, cursor: Any, sql: str, args: Sequence[Any]) -> None:
        # With arguments of its own the driver cannot bind bytes under PyMySQL 1.2.
        raw.statement = sql
        try:
            await cursor.execute(mogrify(sql, args, raw))
        finally:
            raw.statement = None
        # What a procedure gives beside its first result. The driver would leave it to the next
        # statement, which would then wait for it, and fail with its error.
        while raw._result.has_next:  # noqa: SLF001 - nothing public
            await raw.next_result()

    def is_closed(self, raw: Any) -> bool:
        # The driver's own pool looks at the reader, too: there is no public way to see an EOF.
        return bool(raw.closed or raw._reader.eof_received)  # noqa: SLF001


class _AsyncMy(Driver):
    def __init__(self) -> None:
        from asyncmy import connection, converters, cursors, errors
        from asyncmy.constants import FIELD_TYPE

        class QuietConnection(connection.Connection):
            """The driver's cursors log the texts of warnings: a trip more, with values in."""

            async def show_warnings(self) -> None:
                return None

        self._connection: Any = QuietConnection
        self._streaming = cursors.SSCursor
        self.errors = (errors.Error, errors.Warning)
        # Statements that are prepared once per connection travel in the binary protocol.
        self._options: dict[str, Any] = {
            "conv": {
                **converters.conversions,
                FIELD_TYPE.DECIMAL: decimal,
                FIELD_TYPE.NEWDECIMAL: decimal,
            }
        }
        with contextlib.suppress(ValueError):
            if "stmt_cache_size" in inspect.signature(connection.connect).parameters:
                self._options["stmt_cache_size"] = 512

    async def connect(self, kwargs: Mapping[str, Any]) -> Any:
        raw = self._connection(**kwargs, autocommit=True, client_flag=_FOUND_ROWS, **self._options)
        raw._client_flag &= ~_MULTI_STATEMENTS  # noqa: SLF001 - the driver adds it by itself
        try:
            await raw.connect()
        except BaseException:
            raw.close()
            raise
        return raw

    async def cursor(self, raw: Any) -> Any:
        return raw.cursor()

    async def streaming_cursor(self, raw: Any) -> Any:
        return raw.cursor(self._streaming)

    async def execute(
        self,
        raw: Any,  # noqa: ARG002 - this driver binds by itself
        cursor: Any,
        sql: str,
        args: Sequence[Any],
    ) -> None:
        # With arguments, be there none: without, the driver would send text, and read text.
        await cursor.execute(sql, tuple(args))

    async def insert_many(
        self, raw: Any, cursor: Any, insert: BulkInsert, rows: Sequence[Sequence[Any]]
    ) -> int:
        # MariaDB takes any number of rows in binary form, under one prepared statement.
        if not getattr(raw, "_bulk_supported", False) or not is_uniform(rows):
            return await super().insert_many(raw, cursor, insert, rows)
        await cursor.executemany(insert.sql, rows)
        return int(cursor.rowcount)

    def is_closed(self, raw: Any) -> bool:
        return bool(not raw.connected or raw._stream_broken)  # noqa: SLF001 - nothing public


def _datetime(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # MySQL's zero date, which is no time.
        return None


def described(cursor: Any) -> tuple[tuple[str, ...], Kinds]:
    """Names and kinds of the columns that a cursor gives."""
    columns = cursor.description
    return (
        tuple([column[0] for column in columns]),
        # A truth value is a TINYINT that is shown in one digit.
        tuple(
            [
                _KINDS.get(column[1] if column[1] != _TINY or column[3] == 1 else -1)
                for column in columns
            ]
        ),
    )


def driver_named(name: str) -> Driver:
    """The driver by its package's name. Raises ImportError when the package is missing."""
    return _AsyncMy() if name == "asyncmy" else _AioMySQL()
