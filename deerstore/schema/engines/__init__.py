"""The three engines as the schema room sees them; a driver loads when its engine is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deerstore.errors import MissingExtraError
from deerstore.schema.engines.base import SchemaEngine

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["SchemaEngine", "schema_engine"]


def schema_engine(config: StorageConfig) -> SchemaEngine:
    """The engine that ``config`` names, not yet connected.

    Raises :class:`~deerstore.errors.MissingExtraError` when its packages are not installed.
    """
    engine = config.targets.url.engine
    try:
        if engine == "sqlite":
            from deerstore.schema.engines.sqlite import SqliteEngine

            return SqliteEngine(config)
        if engine == "postgres":
            from deerstore.schema.engines.postgres import PostgresEngine

            return PostgresEngine(config)
        from deerstore.schema.engines.mysql import MysqlEngine

        return MysqlEngine(config)
    except ImportError as error:
        if (error.name or "").startswith("deerstore"):
            raise
        raise MissingExtraError(engine, package=error.name or engine) from error
