"""What a gateway plugs in. Importing a name loads only the module that holds it.

=====================================  =======================================================
``RunJournal``                         observes a run and writes its events
``serialize_channel_values_for_api``   any graph state as strict JSON
``capture_rollback_point``,            undo a run's changes to a thread's state
``rollback_to``, ``RollbackPoint``
``branch_thread``                      copy a thread's state to a new thread
``current_user``, …                    the user of the request
=====================================  =======================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deerstore.errors import MissingExtraError

if TYPE_CHECKING:
    from deerstore.gateway.branch import branch_thread as branch_thread
    from deerstore.gateway.context import current_user as current_user
    from deerstore.gateway.context import reset_current_user as reset_current_user
    from deerstore.gateway.context import set_current_user as set_current_user
    from deerstore.gateway.journal import RunJournal as RunJournal
    from deerstore.gateway.rollback import RollbackPoint as RollbackPoint
    from deerstore.gateway.rollback import capture_rollback_point as capture_rollback_point
    from deerstore.gateway.rollback import rollback_to as rollback_to
    from deerstore.gateway.serialization import (
        serialize_channel_values_for_api as serialize_channel_values_for_api,
    )

_HOMES = {
    "RollbackPoint": "rollback",
    "RunJournal": "journal",
    "branch_thread": "branch",
    "capture_rollback_point": "rollback",
    "current_user": "context",
    "reset_current_user": "context",
    "rollback_to": "rollback",
    "serialize_channel_values_for_api": "serialization",
    "set_current_user": "context",
}

__all__ = list(_HOMES)

_EXTRA_PACKAGES = ("langchain_core", "langgraph")


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
