"""The startup assembly: everything a gateway keeps in its application state, in one object."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import deerstore
from deerstore.config import AppConfig
from deerstore.gateway.run_manager import RunManager
from deerstore.gateway.stores import (
    StorageFeedbackStore,
    StorageRunEventStore,
    StorageRunStore,
    StorageThreadMetaStore,
    StorageUserStore,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from deerstore.config import DatabaseConfig, StorageConfig
    from deerstore.database import Session
    from deerstore.persistence import AppPersistence

__all__ = ["GatewayRuntime", "gateway_runtime"]

_log = logging.getLogger("deerstore.gateway")


@dataclass(frozen=True, slots=True)
class GatewayRuntime:
    """What :func:`gateway_runtime` yields, ready for ``app.state``."""

    persistence: AppPersistence
    run_store: StorageRunStore
    run_event_store: StorageRunEventStore
    thread_store: StorageThreadMetaStore
    feedback_repo: StorageFeedbackStore
    user_store: StorageUserStore
    run_manager: RunManager
    checkpointer: BaseCheckpointSaver[Any]
    store: BaseStore
    session_factory: Callable[[], Session]


@asynccontextmanager
async def gateway_runtime(
    config: AppConfig | StorageConfig | DatabaseConfig | str | None = None,
    *,
    worker_id: str | None = None,
    lease_seconds: float = 30,
    grace_seconds: float = 10,
    heartbeat: bool = True,
    drain_seconds: float = 10,
) -> AsyncIterator[GatewayRuntime]:
    """Open the bundle, bring the schema up to date, end orphaned runs, and yield the parts.

    ``config`` is whatever :func:`deerstore.open` takes, or an ``AppConfig``; left out, it is
    ``load_config()``. The other arguments are those of :class:`RunManager`; ``drain_seconds`` is
    how long running tasks may take to end by themselves at the end.

    Orphans are runs whose worker died: they become ``error``, and a thread whose status still
    says that one of them is running becomes ``error`` with it.
    """
    source = config.storage if isinstance(config, AppConfig) else config
    async with deerstore.open(source) as persistence:
        sessions = persistence.session_factory
        manager = RunManager(
            sessions,
            worker_id=worker_id,
            lease_seconds=lease_seconds,
            grace_seconds=grace_seconds,
            heartbeat=heartbeat,
        )
        threads = StorageThreadMetaStore(sessions)
        await _end_orphans(manager, threads)
        try:
            yield GatewayRuntime(
                persistence=persistence,
                run_store=StorageRunStore(sessions),
                run_event_store=StorageRunEventStore(sessions),
                thread_store=threads,
                feedback_repo=StorageFeedbackStore(sessions),
                user_store=StorageUserStore(sessions),
                run_manager=manager,
                checkpointer=persistence.checkpointer,
                store=persistence.store,
                session_factory=sessions,
            )
        finally:
            await manager.shutdown(drain_seconds=drain_seconds)


async def _end_orphans(manager: RunManager, threads: StorageThreadMetaStore) -> None:
    for run in await manager.reconcile_orphaned_inflight_runs():
        _log.warning(
            "run %s of thread %s was orphaned: it ended as error", run.run_id, run.thread_id
        )
        thread = await threads.get(run.thread_id, user_id=None)
        if thread is not None and thread["status"] in ("running", "busy"):
            await threads.update_status(run.thread_id, "error", user_id=None)
