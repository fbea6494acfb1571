"""Copies a thread's state to a new thread, where the conversation can go on another way.

The state is copied, not the history and not what lies outside the checkpointer: runs, events,
files and Store items stay with the source.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from deerstore.errors import AlreadyExistsError, NotFoundError
from deerstore.gateway.checkpoints.copy import (
    CheckpointCopier,
    has_pending_tasks,
    load_subgraphs,
    locate,
)
from deerstore.gateway.checkpoints.ids import NULL_TASK_ID, node_names
from deerstore.values import identifier

__all__ = ["branch_thread"]


async def branch_thread(
    checkpointer: BaseCheckpointSaver[Any],
    source: str | UUID,
    target: str | UUID,
    *,
    checkpoint_id: str | None = None,
) -> str:
    """Make ``source``'s state the state of the new thread ``target``; gives the checkpoint's id.

    The latest state, with an interrupt that waits in it, or the one of ``checkpoint_id``. From a
    checkpoint that the thread has moved past, what its tasks did next is left out: the branch
    stands where they have yet to run, and an interrupt there asks again. A crash half-way leaves
    nothing visible in ``target``, except for a graph with a ``DeltaChannel``, whose copied
    ancestors make a second attempt fail until the thread is deleted.

    Raises:
        NotFoundError: ``source`` has no such checkpoint.
        AlreadyExistsError: ``target`` has a state already. Nothing was changed.
    """
    source_id = identifier("source", source)
    target_id = identifier("target", target)
    latest = await checkpointer.aget_tuple(locate(source_id))
    saved = latest
    if checkpoint_id is not None:
        saved = await checkpointer.aget_tuple(locate(source_id, checkpoint_id=checkpoint_id))
    if saved is None or latest is None:
        raise NotFoundError(
            f"thread {source_id} has no checkpoint{f' {checkpoint_id}' if checkpoint_id else ''}"
        )
    if await checkpointer.aget_tuple(locate(target_id)) is not None:
        raise AlreadyExistsError(f"thread {target_id} has a state already; branch to a new thread")
    if saved.checkpoint["id"] == latest.checkpoint["id"]:
        subgraphs = await load_subgraphs(checkpointer, saved, with_tasks=has_pending_tasks(saved))
    else:
        saved = _not_yet_run(saved)
        subgraphs = await _earlier_subgraphs(checkpointer, saved, latest)
    return await CheckpointCopier(checkpointer, target_id, subgraphs).copy(saved)


def _not_yet_run(saved: CheckpointTuple) -> CheckpointTuple:
    """A superseded checkpoint without what the next step made of it.

    Its stored writes belong to the step that consumed them. What it asked stays, and so do the
    writes that are part of its own values.
    """
    kept = [
        (task_id, channel, value)
        for task_id, channel, value in saved.pending_writes or ()
        if channel == "__interrupt__" or (task_id == NULL_TASK_ID and channel != "__resume__")
    ]
    return saved._replace(pending_writes=kept)


async def _earlier_subgraphs(
    saver: BaseCheckpointSaver[Any], saved: CheckpointTuple, latest: CheckpointTuple
) -> dict[str, CheckpointTuple]:
    """The states that lasting subgraphs had at an earlier checkpoint of the thread."""
    ancestors: set[str] = set()
    config = saved.parent_config
    while config is not None and config["configurable"]["checkpoint_id"] not in ancestors:
        ancestors.add(config["configurable"]["checkpoint_id"])
        parent = await saver.aget_tuple(config)
        config = parent.parent_config if parent is not None else None
    found: dict[str, CheckpointTuple] = {}
    waiting = [latest]
    while waiting:
        graph = waiting.pop()
        outer = graph.config["configurable"].get("checkpoint_ns", "")
        prefix = f"{outer}|" if outer else ""
        for name in node_names(graph):
            async for subgraph in saver.alist(
                locate(saved.config["configurable"]["thread_id"], f"{prefix}{name}")
            ):
                if subgraph.metadata.get("parents", {}).get("") in ancestors:
                    found[f"{prefix}{name}"] = subgraph
                    waiting.append(subgraph)
                    break
    return found
