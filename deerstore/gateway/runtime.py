"""The startup assembly: everything a gateway keeps in its application state, in one object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import deerstore
from deerstore.config import AppConfig
from deerstore.gateway.runs.manager import RunManager
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

# What a thread's status says while a run is at work in it.
_BUSY = ("running", "busy")
_ACTIVE = ("pending", "running")
_MANY = 10_000


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

    Orphans are runs whose worker died: they become ``error``. A worker that is given a
    ``worker_id`` ends at its start what its former process of that name left, which therefore must
    not live any more; the runs of other workers are ended when their lease has run out, at a
    start or, with ``heartbeat``, once per lease. A thread whose status says ``running`` or
    ``busy`` while none of its runs is active becomes ``error`` or ``idle``, as its newest run
    ended.
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
        runs, threads = StorageRunStore(sessions), StorageThreadMetaStore(sessions)
        await _end_orphans(manager, runs, threads, restarted=worker_id is not None)
        for status in _BUSY:
            for thread in await threads.search(status=status, limit=_MANY, user_id=None):
                await _settle(runs, threads, thread["thread_id"])
        watch = (
            asyncio.create_task(_watch(manager, runs, threads, lease_seconds))
            if heartbeat
            else None
        )
        try:
            yield GatewayRuntime(
                persistence=persistence,
                run_store=runs,
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
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
            await manager.shutdown(drain_seconds=drain_seconds)


async def _watch(
    manager: RunManager, runs: StorageRunStore, threads: StorageThreadMetaStore, seconds: float
) -> None:
    """End the runs of workers that die meanwhile."""
    while True:
        await asyncio.sleep(seconds)
        try:
            # A row without a lease may be in the care of somebody who keeps none.
            await _end_orphans(manager, runs, threads, leased_only=True)
        except Exception:  # noqa: BLE001 - it is logged with its traceback
            _log.exception("orphaned runs could not be looked for")


async def _end_orphans(
    manager: RunManager,
    runs: StorageRunStore,
    threads: StorageThreadMetaStore,
    *,
    restarted: bool = False,
    leased_only: bool = False,
) -> None:
    for run in await manager.reconcile_orphaned_inflight_runs(
        restarted=restarted, leased_only=leased_only
    ):
        _log.warning(
            "run %s of thread %s was orphaned: it ended as error", run.run_id, run.thread_id
        )
        await _settle(runs, threads, run.thread_id)


async def _settle(runs: StorageRunStore, threads: StorageThreadMetaStore, thread_id: str) -> None:
    """Give a thread that nobody works on the status of rest that its newest run ended with."""
    thread = await threads.get(thread_id, user_id=None)
    newest = await _newest_run(runs, thread_id)
    if thread is None or thread["status"] not in _BUSY or newest in _ACTIVE:
        return
    rest = "error" if newest in ("error", "timeout") else "idle"
    await threads.update_status(thread_id, rest, user_id=None)
    if await _newest_run(runs, thread_id) in _ACTIVE:
        # Another worker began a run in between, and had said so.
        await threads.update_status(thread_id, thread["status"], user_id=None)


async def _newest_run(runs: StorageRunStore, thread_id: str) -> str | None:
    rows = await runs.list_by_thread(thread_id, limit=1, user_id=None)
    return rows[0]["status"] if rows else None
