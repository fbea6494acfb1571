"""The size of what MySQL takes in one packet: beyond it, it cuts the connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deerstore.database.failures import execution_error
from deerstore.database.mysql_text import mogrify
from deerstore.errors import InvalidValueError, QueryExecutionError
from deerstore.queries import CompiledQuery

__all__ = ["PACKET_TOO_LARGE", "PacketLimit", "too_large_error"]

PACKET_TOO_LARGE = 1153

_SIZED = frozenset({str, bytes})
_LARGE = 100_000
"""Characters or bytes of a value from which on the statement is measured."""


class PacketLimit:
    """One connection's ``max_allowed_packet``, asked for when it first matters."""

    __slots__ = ("_bytes", "_cursor", "_raw")

    def __init__(self, raw: Any, cursor: Any) -> None:
        self._raw = raw
        self._cursor = cursor
        self._bytes: int | None = None

    async def check(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Refuse a statement that is too large with one of these rows of arguments.

        Raises:
            InvalidValueError: it is. Nothing was sent.
        """
        for args in rows:
            for value in args:
                if type(value) in _SIZED and len(value) > _LARGE:
                    await self._measure(sql, args)
                    break

    async def _measure(self, sql: str, args: Sequence[Any]) -> None:
        if self._bytes is None:
            await self._cursor.execute("SELECT @@max_allowed_packet")
            ((limit,),) = await self._cursor.fetchall()
            self._bytes = int(limit)
        # The command takes a byte of its own.
        size = 1 + len(mogrify(sql, args, self._raw).encode("utf-8", "surrogatepass"))
        if size >= self._bytes:
            raise InvalidValueError(
                f"the statement takes {size} bytes with its values; the server takes at most "
                f"{self._bytes} (raise max_allowed_packet)"
            )


def too_large_error(query: CompiledQuery | None) -> QueryExecutionError:
    """The server found a packet too large, and has closed the connection."""
    reason = "the statement is larger than the server's max_allowed_packet"
    return execution_error(query, reason, engine_code=PACKET_TOO_LARGE)
