"""Which server was measured."""

from __future__ import annotations

import sqlite3

from benchmarks.places import Place

__all__ = ["server_version"]


async def server_version(place: Place) -> str:
    """The server's own words."""
    targets = place.config.targets
    if place.kind == "sqlite":
        return sqlite3.sqlite_version
    if place.kind == "postgres":
        import asyncpg

        connection = await asyncpg.connect(**targets.asyncpg_kwargs())
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()
    import aiomysql

    raw = await aiomysql.connect(**targets.aiomysql_kwargs())
    try:
        return str(raw.get_server_info())
    finally:
        raw.close()
