"""What a gateway plugs in. Importing a name loads only the module that holds it.

=====================================  =======================================================
``RunJournal``                         observes a run and writes its events
``serialize_channel_values_for_api``   any graph state as strict JSON
``capture_rollback_point``,            undo a run's changes to a thread's state
``rollback_to``, ``RollbackPoint``
``branch_thread``                      copy a thread's state to a new thread
``StorageRunStore``, …                 storage under the names a gateway already speaks
``StorageRunRepository``, …            the repositories, each call its own unit
``RunManager``                         the life of a run: admission, leases, cancel, recovery
``gateway_runtime``                    all of it, opened and closed at once
``current_user``, …                    the user of the request
=====================================  =======================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deerstore.errors import MissingExtraError

if TYPE_CHECKING:
    from deerstore.gateway.checkpoints import RollbackPoint as RollbackPoint
    from deerstore.gateway.checkpoints import branch_thread as branch_thread
    from deerstore.gateway.checkpoints import capture_rollback_point as capture_rollback_point
    from deerstore.gateway.checkpoints import rollback_to as rollback_to
    from deerstore.gateway.context import current_user as current_user
    from deerstore.gateway.context import reset_current_user as reset_current_user
    from deerstore.gateway.context import set_current_user as set_current_user
    from deerstore.gateway.journal import RunJournal as RunJournal
    from deerstore.gateway.runs import RunManager as RunManager
    from deerstore.gateway.runtime import gateway_runtime as gateway_runtime
    from deerstore.gateway.serialization import (
        serialize_channel_values_for_api as serialize_channel_values_for_api,
    )
    from deerstore.gateway.stores import StorageFeedbackRepository as StorageFeedbackRepository
    from deerstore.gateway.stores import StorageFeedbackStore as StorageFeedbackStore
    from deerstore.gateway.stores import StorageRunEventRepository as StorageRunEventRepository
    from deerstore.gateway.stores import StorageRunEventStore as StorageRunEventStore
    from deerstore.gateway.stores import StorageRunRepository as StorageRunRepository
    from deerstore.gateway.stores import StorageRunStore as StorageRunStore
    from deerstore.gateway.stores import StorageThreadMetaRepository as StorageThreadMetaRepository
    from deerstore.gateway.stores import StorageThreadMetaStore as StorageThreadMetaStore
    from deerstore.gateway.stores import StorageUserDataRepository as StorageUserDataRepository
    from deerstore.gateway.stores import StorageUserStore as StorageUserStore

_HOMES = {
    "RollbackPoint": "checkpoints",
    "RunJournal": "journal",
    "RunManager": "runs",
    "StorageFeedbackRepository": "stores",
    "StorageFeedbackStore": "stores",
    "StorageRunEventRepository": "stores",
    "StorageRunEventStore": "stores",
    "StorageRunRepository": "stores",
    "StorageRunStore": "stores",
    "StorageThreadMetaRepository": "stores",
    "StorageThreadMetaStore": "stores",
    "StorageUserDataRepository": "stores",
    "StorageUserStore": "stores",
    "branch_thread": "checkpoints",
    "capture_rollback_point": "checkpoints",
    "current_user": "context",
    "gateway_runtime": "runtime",
    "reset_current_user": "context",
    "rollback_to": "checkpoints",
    "serialize_channel_values_for_api": "serialization",
    "set_current_user": "context",
}

__all__ = list(_HOMES)

_EXTRA_PACKAGES = ("langchain_core", "langgraph", "xxhash")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA_PACKAGES:
            raise
        raise MissingExtraError("gateway", package=missing) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
