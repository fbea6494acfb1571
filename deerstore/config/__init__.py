"""Where deerstore keeps its data, and how it talks to that place.

One :class:`StorageConfig` governs all five surfaces. It is made from keywords, from a URL, from
the older ``database:`` shape (:func:`storage_config_from_database_config`) or from a YAML file
(:func:`load_config`).
"""

from __future__ import annotations

from deerstore.config.app import (
    AppConfig,
    DatabaseConfig,
    load_config,
    storage_config_from_database_config,
)
from deerstore.config.storage import SecretURL, StorageConfig

__all__ = [
    "AppConfig",
    "DatabaseConfig",
    "SecretURL",
    "StorageConfig",
    "load_config",
    "storage_config_from_database_config",
]
