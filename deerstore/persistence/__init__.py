"""The bundle of everything a gateway keeps, from one configuration.

::

    persistence = await create_persistence_from_storage_config(config)
    await persistence.setup()
    graph = builder.compile(checkpointer=persistence.checkpointer, store=persistence.store)
    ...
    await persistence.aclose()
"""

from __future__ import annotations

from deerstore.config import storage_config_from_database_config
from deerstore.persistence.bundle import AppPersistence, SessionFactory
from deerstore.persistence.factory import (
    create_persistence,
    create_persistence_from_database_config,
    create_persistence_from_storage_config,
)

__all__ = [
    "AppPersistence",
    "SessionFactory",
    "create_persistence",
    "create_persistence_from_database_config",
    "create_persistence_from_storage_config",
    "storage_config_from_database_config",
]
