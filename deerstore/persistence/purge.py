"""The end of a thread: gone from every surface."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from deerstore.database.catalog import deerstore_queries
from deerstore.persistence.store import below
from deerstore.values import identifier

if TYPE_CHECKING:
    from deerstore.database import Database
    from deerstore.database.executor import Executor

__all__ = ["purge_thread"]


async def purge_thread(
    database: Database,
    thread_id: str | uuid.UUID,
    *,
    user_id: str | uuid.UUID | None = None,
    include_store: bool = False,
) -> dict[str, int]:
    """Remove a thread's feedback, events, runs, checkpoints, pending writes and metadata.

    With ``user_id`` only a thread of that user: one of somebody else, or of nobody, is left as it
    is. With ``include_store`` also the Store items in the namespaces that begin with the thread's
    id. The metadata goes last: after a crash the next call finds the thread and finishes.

    Returns:
        How many rows were removed: ``feedback``, ``run_events``, ``runs``, ``checkpoints``,
        ``checkpoint_writes``, ``store_items`` and ``threads_meta``.
    """
    thread = identifier("thread_id", thread_id)
    queries = deerstore_queries()
    removed = dict.fromkeys(
        (
            "feedback",
            "run_events",
            "runs",
            "checkpoints",
            "checkpoint_writes",
            "store_items",
            "threads_meta",
        ),
        0,
    )
    if user_id is not None and not await _belongs_to(
        database, thread, identifier("user_id", user_id)
    ):
        return removed

    async def delete_rows(executor: Executor) -> None:
        for table in ("feedback", "run_events", "runs"):
            query = queries[f"purge.delete_{table}"]
            removed[table] = await executor.execute(query, thread_id=thread)

    async def delete_state(executor: Executor) -> None:
        removed["checkpoint_writes"] = await executor.execute(
            queries["checkpoints.delete_writes"], thread_id=thread
        )
        removed["checkpoints"] = await executor.execute(
            queries["checkpoints.delete_checkpoints"], thread_id=thread
        )

    await database.retrying(delete_rows)
    await database.retrying(delete_state)
    # No label of a namespace has a dot, so that such a thread has no namespace.
    if include_store and "." not in thread:
        removed["store_items"] = await database.execute(
            queries["store.delete_namespace"], **below((thread,))
        )
    removed["threads_meta"] = await database.execute(
        queries["purge.delete_thread_meta"], thread_id=thread
    )
    return removed


async def _belongs_to(database: Database, thread_id: str, user_id: str) -> bool:
    queries = deerstore_queries()
    owners = await database.fetch_tuples(
        queries["purge.find_meta_owner"], {"thread_id": thread_id}
    ) or await database.fetch_tuples(queries["purge.find_run_owners"], {"thread_id": thread_id})
    return bool(owners) and all(owner == user_id for (owner,) in owners)
