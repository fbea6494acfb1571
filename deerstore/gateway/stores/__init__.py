"""Storage under the names that a gateway already speaks, and adapters that speak in DTOs.

Each is built from ``persistence.session_factory``, and each call is its own unit, committed when
it returns. The *stores* give plain dicts with ISO 8601 times and take ``user_id`` three ways: left
out, it is the user of the request context; a string is that user; ``None`` filters nothing, and
on a write stores no owner. The *repositories* have the methods of their protocols.

A store belongs to the event loop that first uses it, as its database does; from another loop a
call raises :class:`RuntimeError`.
"""

from __future__ import annotations

from deerstore.gateway.stores.adapters import (
    StorageFeedbackRepository,
    StorageRunEventRepository,
    StorageRunRepository,
    StorageThreadMetaRepository,
    StorageUserDataRepository,
)
from deerstore.gateway.stores.events import StorageRunEventStore
from deerstore.gateway.stores.feedback import StorageFeedbackStore
from deerstore.gateway.stores.runs import StorageRunStore
from deerstore.gateway.stores.threads import StorageThreadMetaStore
from deerstore.gateway.stores.users import StorageUserStore

__all__ = [
    "StorageFeedbackRepository",
    "StorageFeedbackStore",
    "StorageRunEventRepository",
    "StorageRunEventStore",
    "StorageRunRepository",
    "StorageRunStore",
    "StorageThreadMetaRepository",
    "StorageThreadMetaStore",
    "StorageUserDataRepository",
    "StorageUserStore",
]
