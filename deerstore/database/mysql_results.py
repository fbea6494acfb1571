"""Results over aiomysql, read in chunks: by itself the driver awaits every packet of them twice.

Whatever is not an ordinary row (an OK packet, an error, the end, a row that has not arrived in
full) is left to the driver, which finds its bytes as if nobody had looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiomysql
from aiomysql.connection import MySQLResult
from pymysql.constants import CR

from deerstore.database.mysql_rows import Reader, reader, take_rows

__all__ = ["ChunkedConnection", "Layout"]

_CHUNK = 1 << 18
"""The most bytes that one read takes: as many as asyncio receives at once."""
_LAYOUTS = 1024
"""The most statements whose columns are remembered."""
_METHODS = ("_close_on_cancel", "_read_bytes", "_read_packet", "_read_query_result")
_STATE = ("_next_seq_id", "_reader")
_OF_RESULTS = (
    "_check_packet_is_eof",
    "_get_descriptions",
    "_read_row_from_packet",
    "_read_rowdata_packet",
)
"""What is used of the driver without being public."""


class Layout(NamedTuple):
    """The columns of a statement's result, and the bytes that described them."""

    head: bytes
    fields: list[Any]
    description: tuple[Any, ...]
    converters: list[Any]
    readers: tuple[Reader, ...]


class _Result(MySQLResult):  # type: ignore[misc]
    """A result that is read at once."""

    fields: list[Any]
    description: tuple[Any, ...]
    converters: list[Any]
    _readers: tuple[Reader, ...]

    async def _get_descriptions(self) -> None:
        connection: ChunkedConnection = self.connection
        statement, layouts = connection.statement, connection.layouts
        layout = layouts.get(statement) if statement is not None else None
        if layout is None or not await connection.pass_head(layout.head, self.field_count + 1):
            seq = connection.next_packet
            await super()._get_descriptions()
            layout = Layout(
                _head(seq, [field.get_all_data() for field in self.fields]),
                self.fields,
                self.description,
                self.converters,
                tuple([reader(*each) for each in self.converters]),
            )
            if statement is not None:
                if len(layouts) >= _LAYOUTS:
                    layouts.clear()
                layouts[statement] = layout
        _, self.fields, self.description, self.converters, self._readers = layout

    async def _read_rowdata_packet(self) -> None:
        connection: ChunkedConnection = self.connection
        rows: list[tuple[Any, ...]] = []
        while True:
            packet = await connection.after_rows(self._readers, rows)
            if self._check_packet_is_eof(packet):
                break
            rows.append(self._read_row_from_packet(packet))
        self.affected_rows = len(rows)
        self.rows = tuple(rows)


class ChunkedConnection(aiomysql.Connection):  # type: ignore[misc]
    """A connection that reads the results of buffered cursors in chunks, once it is told to."""

    statement: str | None = None
    """The text of the next statement without its values: its columns are remembered by it."""
    layouts: dict[str, Layout]
    _next_seq_id: int
    _chunked = False
    _ahead = b""
    """What was taken from the stream and is still to be read."""

    def read_in_chunks(self, layouts: dict[str, Layout]) -> None:
        """Begin with it, on an open connection, if this release of the driver is as expected.

        Not before the login: nothing may be read ahead of a TLS handshake. ``layouts`` is where
        columns are remembered; connections may share it.
        """
        self.layouts = layouts
        self._chunked = all(
            hasattr(owner, name)
            for owner, names in (
                (aiomysql.Connection, _METHODS),
                (self, _STATE),
                (MySQLResult, _OF_RESULTS),
            )
            for name in names
        )

    @property
    def next_packet(self) -> int:
        """The number of the next packet."""
        return self._next_seq_id

    def close(self) -> None:
        """Close the socket."""
        super().close()
        self._ahead = b""

    async def pass_head(self, head: bytes, packets: int) -> bool:
        """Go past the description of columns if it is this one, else stay before it."""
        # It ends with two numbers that the driver does not look at, either.
        size = len(head) + 4
        while len(self._ahead) < size and head.startswith(self._ahead[: len(head)]):
            self._ahead += await self._chunk()
        if not self._ahead.startswith(head):
            return False
        self._ahead = self._ahead[size:]
        self._next_seq_id = (self._next_seq_id + packets) % 256
        return True

    async def after_rows(self, readers: Sequence[Reader], rows: list[tuple[Any, ...]]) -> Any:
        """Append the rows that have arrived, and give the packet after them."""
        if not self._ahead:
            self._ahead = await self._chunk()
        used, self._next_seq_id = take_rows(self._ahead, self._next_seq_id, readers, rows)
        self._ahead = self._ahead[used:]
        return await self._read_packet()

    async def _read_query_result(self, unbuffered: bool = False) -> None:
        if unbuffered or not self._chunked:
            await super()._read_query_result(unbuffered)
            return
        self._result = None
        if not self._ahead:
            self._ahead = await self._chunk()
        result = _Result(self)
        await result.read()
        self._result = result
        self._affected_rows = result.affected_rows
        if result.server_status is not None:
            self.server_status = result.server_status

    async def _read_bytes(self, num_bytes: int) -> bytes:
        if not self._ahead:
            return await super()._read_bytes(num_bytes)  # type: ignore[no-any-return]
        data, self._ahead = self._ahead[:num_bytes], self._ahead[num_bytes:]
        if len(data) < num_bytes:
            data += await super()._read_bytes(num_bytes - len(data))
        return data

    async def _chunk(self) -> bytes:
        """What has arrived, a byte at least. Fails as the driver does."""
        reason = ""
        try:
            data: bytes = await self._reader.read(_CHUNK)
        except asyncio.CancelledError:
            self._close_on_cancel()
            raise
        except OSError as error:
            data, reason = b"", f" ({error})"
        if not data:
            self.close()
            raise aiomysql.OperationalError(
                CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{reason}"
            )
        return data


def _head(seq: int, payloads: Sequence[bytes]) -> bytes:
    """The packets that describe columns as they came, up to the type of the one after them."""
    parts = []
    for number, payload in enumerate((*payloads, b"\xfe"), seq):
        size = len(payload) if number < seq + len(payloads) else 5
        parts += [size.to_bytes(3, "little"), bytes([number % 256]), payload]
    return b"".join(parts)
