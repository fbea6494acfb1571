"""What a test asks a server about its clients, behind the facade's back."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql


def _postgres(url: str, sql: str) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def _mysql(url: str, sql: str) -> list[tuple]:
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port,
        user=unquote(parts.username),
        password=unquote(parts.password),
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


class Server:
    """A server as an administrator sees it."""

    def __init__(self, engine: str, url: str) -> None:
        self._engine = engine
        self._url = url
        self._name = urlsplit(url).path.lstrip("/")

    async def _ask(self, sql: str) -> list[tuple]:
        ask = _postgres if self._engine == "postgres" else _mysql
        return await asyncio.to_thread(ask, self._url, sql)

    async def clients(self) -> list[tuple[int, bool, str]]:
        """Id, whether it is doing something or is in a transaction, and the last statement."""
        if self._engine == "postgres":
            return await self._ask(
                "SELECT pid, state <> 'idle', query FROM pg_stat_activity "
                f"WHERE datname = '{self._name}' AND pid <> pg_backend_pid()"
            )
        return await self._ask(
            "SELECT p.id, p.command <> 'Sleep' OR t.trx_id IS NOT NULL, "
            "COALESCE(p.info, CONCAT('(', p.command, ')')) "
            "FROM information_schema.processlist AS p "
            "LEFT JOIN information_schema.innodb_trx AS t ON t.trx_mysql_thread_id = p.id "
            f"WHERE p.db = '{self._name}'"
        )

    async def busy(self) -> list[str]:
        """Statements that run, or wait in a transaction."""
        return [text for _, working, text in await self.clients() if working]

    async def kill(self) -> int:
        """End every client's connection; how many there were."""
        found = await self.clients()
        for number, _, _ in found:
            if self._engine == "postgres":
                await self._ask(f"SELECT pg_terminate_backend({number})")
            else:
                await self._ask(f"KILL CONNECTION {number}")
        return len(found)
