"""SQLAlchemy's engines on the same databases, with its own defaults and pre-ping."""

from __future__ import annotations

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from deerstore.config import StorageConfig

__all__ = ["engine_for"]

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgres": "postgresql+asyncpg"}


def engine_for(config: StorageConfig, *, size: int = 5) -> AsyncEngine:
    """An engine with a pool of ``size`` and the durability that deerstore's connections have."""
    if config.driver == "sqlite":
        url = URL.create("sqlite+aiosqlite", database=config.targets.sqlite_path())
    else:
        name = _DRIVERS.get(config.driver, f"mysql+{config.mysql_driver}")
        url = make_url(config.database_url.get_secret_value()).set(drivername=name)
    level = {} if config.driver == "sqlite" else {"isolation_level": "READ COMMITTED"}
    engine = create_async_engine(url, pool_size=size, max_overflow=0, pool_pre_ping=True, **level)
    if config.driver == "sqlite":

        @event.listens_for(engine.sync_engine, "connect")
        def settings(connection, _record) -> None:  # noqa: ANN001
            cursor = connection.cursor()
            cursor.execute("PRAGMA busy_timeout = 30000")
            cursor.execute(f"PRAGMA synchronous = {config.sqlite_synchronous}")
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.close()

    elif config.driver == "mysql":

        @event.listens_for(engine.sync_engine, "connect")
        def session(connection, _record) -> None:  # noqa: ANN001
            cursor = connection.cursor()
            cursor.execute(config.targets.aiomysql_kwargs()["init_command"])
            cursor.close()

    return engine
