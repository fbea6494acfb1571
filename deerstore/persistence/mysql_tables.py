"""LangGraph's tables on MySQL and MariaDB, made over a connection of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import aiomysql

from deerstore.schema.langgraph import Ledger, complete_mysql, run_migrations

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["make_tables"]

# Duplicate table, column or index: the statement had run before.
_DONE_ALREADY = frozenset({1050, 1060, 1061})


class _SilentCursor(aiomysql.Cursor):  # type: ignore[misc]
    """A cursor that does not turn the server's notes ("exists already") into warnings."""

    async def _show_warnings(self, conn: Any) -> None:
        pass


async def make_tables(config: StorageConfig, ledgers: Sequence[Ledger]) -> None:
    """Run the migrations of some ledgers, and give the tables what deerstore adds to them."""
    # A connection of its own: a rebuilt table may take longer than command_timeout.
    connection = await aiomysql.connect(**config.targets.aiomysql_kwargs(), autocommit=True)
    try:
        async with connection.cursor(_SilentCursor) as cursor:

            async def execute(sql: str, args: Sequence[Any] | None) -> Sequence[Sequence[Any]]:
                await cursor.execute(sql, args)
                return list(await cursor.fetchall()) if cursor.description else []

            for ledger in ledgers:
                await run_migrations("mysql", execute, ledger, _is_done_already)
            await complete_mysql(execute)
    finally:
        await connection.ensure_closed()


def _is_done_already(error: Exception) -> bool:
    return isinstance(error, aiomysql.Error) and bool(error.args) and error.args[0] in _DONE_ALREADY
