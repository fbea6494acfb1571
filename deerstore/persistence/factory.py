"""From a configuration to a bundle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from deerstore.config import (
    DatabaseConfig,
    StorageConfig,
    load_config,
    storage_config_from_database_config,
)
from deerstore.database import Database
from deerstore.errors import ConfigError, MissingExtraError
from deerstore.persistence.bundle import AppPersistence

if TYPE_CHECKING:
    from deerstore.persistence.bundle import LangGraphParts

__all__ = [
    "create_persistence",
    "create_persistence_from_database_config",
    "create_persistence_from_storage_config",
    "open_persistence",
]


async def create_persistence() -> AppPersistence:
    """The bundle of the configuration file; see :func:`deerstore.config.load_config`."""
    return await create_persistence_from_storage_config(load_config().storage)


async def create_persistence_from_database_config(config: Any) -> AppPersistence:
    """The bundle of an older ``database:`` section.

    ``config`` is anything that :func:`~deerstore.config.storage_config_from_database_config` takes.
    """
    return await create_persistence_from_storage_config(storage_config_from_database_config(config))


async def create_persistence_from_storage_config(config: StorageConfig) -> AppPersistence:
    """The bundle of a configuration.

    Nothing is connected yet: ``await persistence.setup()`` makes the database and its tables where
    they are missing. The bundle belongs to the running event loop.

    Raises:
        MissingExtraError: the engine's packages are not installed; it names the extra.
    """
    if not isinstance(config, StorageConfig):
        raise ConfigError(f"config must be a StorageConfig, not {type(config).__name__}")
    database = Database(config)
    try:
        parts = _langgraph_parts(config)(database)
    except BaseException:
        await database.aclose()
        raise
    return AppPersistence(database, parts)


@asynccontextmanager
async def open_persistence(
    where: str | StorageConfig | DatabaseConfig | None = None,
) -> AsyncIterator[AppPersistence]:
    """Create the bundle, run its ``setup()``, and close it at the end of the block.

    ``where`` is a database URL or a configuration; without it the configuration file is read.

        async with deerstore.open("sqlite:///data/deerflow.db") as persistence:
            ...
    """
    persistence = await create_persistence_from_storage_config(_configuration(where))
    try:
        await persistence.setup()
        yield persistence
    finally:
        await persistence.aclose()


def _configuration(where: str | StorageConfig | DatabaseConfig | None) -> StorageConfig:
    if where is None:
        return load_config().storage
    if isinstance(where, StorageConfig):
        return where
    if isinstance(where, str):
        return StorageConfig(database_url=where)
    return storage_config_from_database_config(where)


def _langgraph_parts(config: StorageConfig) -> Callable[[Database], LangGraphParts]:
    try:
        if config.driver == "sqlite":
            from deerstore.persistence.sqlite import SqliteLangGraph

            return SqliteLangGraph
        if config.driver == "postgres":
            from deerstore.persistence.postgres import PostgresLangGraph

            return PostgresLangGraph
        from deerstore.persistence.mysql import MySQLLangGraph
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "deerstore"):
            raise
        raise MissingExtraError(config.driver, package=package) from error
    return MySQLLangGraph
