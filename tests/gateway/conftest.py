"""LangGraph's own savers over a fresh database, without the bundle around them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.base import BaseCheckpointSaver


@pytest.fixture
async def checkpointer(engine: str, storage_url: str) -> AsyncIterator[BaseCheckpointSaver]:
    """The engine's saver, set up."""
    async with AsyncExitStack() as stack:
        if engine == "sqlite":
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            path = storage_url.removeprefix("sqlite:///").partition("?")[0]
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
        elif engine == "postgres":
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

            saver = await stack.enter_async_context(
                AsyncPostgresSaver.from_conn_string(storage_url)
            )
        else:
            import aiomysql
            from langgraph.checkpoint.mysql.aio import AIOMySQLSaver

            url = urlsplit(storage_url)
            connection = await aiomysql.connect(
                host=url.hostname,
                port=url.port,
                user=unquote(url.username or ""),
                password=unquote(url.password or ""),
                db=url.path.strip("/"),
                charset="utf8mb4",
                autocommit=True,
            )
            stack.push_async_callback(connection.ensure_closed)
            saver = AIOMySQLSaver(connection)
        await saver.setup()
        yield saver
