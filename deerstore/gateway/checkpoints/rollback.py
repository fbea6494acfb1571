"""Undoes what a run did to its thread's state.

``capture_rollback_point`` before the run, ``rollback_to`` after it. The state comes back as a new
checkpoint that sorts newest, whatever the clock says; the undone checkpoints stay in the history.
A thread that was stopped at an interrupt is stopped at it again and can be resumed. A thread
whose first run is undone has no checkpoint again: only then does it read as it did before.

Only the checkpointer's state is undone. Files, e-mails, rows and whatever else a run did outside
of it stay done.

Limits. The ids of tasks and interrupts contain the checkpoint's id, so a restored interrupt has a
new id: read it from the state after the rollback. Results of ``@task`` functions (LangGraph's
functional API) that were pending are not brought back, since a checkpoint does not name the
function: such a task runs again on resume.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from deerstore.gateway.checkpoints.copy import (
    CheckpointCopier,
    checkpoint_id_of,
    has_pending_tasks,
    load_subgraphs,
    locate,
)
from deerstore.gateway.checkpoints.ids import node_names
from deerstore.values import identifier

__all__ = ["RollbackPoint", "capture_rollback_point", "rollback_to"]

_log = logging.getLogger(__name__)

# A cancelled run's last save may arrive while the state is being restored.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class RollbackPoint:
    """A thread's state before a run.

    ``checkpoint`` is the latest checkpoint, ``None`` for a thread without any. ``error`` says
    why the point could not be captured; rolling back to such a point is refused.
    """

    thread_id: str
    checkpoint: CheckpointTuple | None = None
    subgraphs: Mapping[str, CheckpointTuple] = field(default_factory=dict)
    error: str | None = None

    @property
    def usable(self) -> bool:
        """Whether :func:`rollback_to` can restore this point."""
        return self.error is None


async def capture_rollback_point(
    checkpointer: BaseCheckpointSaver[Any], thread_id: str | UUID
) -> RollbackPoint:
    """Remember a thread's state, so that a run can be undone.

    One read; some more when the thread is stopped inside a step. A failure does not keep the run
    from starting: it gives a point that is not :attr:`~RollbackPoint.usable`, says why in
    ``error``, and is logged.
    """
    thread = identifier("thread_id", thread_id)
    try:
        saved = await checkpointer.aget_tuple(locate(thread))
        if saved is None:
            return RollbackPoint(thread)
        subgraphs = await load_subgraphs(checkpointer, saved) if has_pending_tasks(saved) else {}
    except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without a point
        _log.warning(
            "thread %s: no rollback point could be captured, so this run cannot be rolled back",
            thread,
            exc_info=True,
        )
        return RollbackPoint(thread, error=f"{type(error).__name__}: {error}")
    return RollbackPoint(thread, saved, subgraphs)


async def rollback_to(
    checkpointer: BaseCheckpointSaver[Any], point: RollbackPoint | None
) -> str | None:
    """Make the state of ``point`` the thread's latest again.

    Gives the id of the new latest checkpoint, ``None`` when the thread was empty and is so again.
    The run must have ended: what it saves afterwards would be newer. Calling it again is safe.

    Raises:
        RuntimeError: The point could not be captured (or is ``None``): nothing was changed.
    """
    if point is None or not point.usable:
        reason = point.error if point is not None else "no point was captured"
        raise RuntimeError(f"this run cannot be rolled back: {reason}")
    for _ in range(_ATTEMPTS):
        restored = await _restore(checkpointer, point)
        latest = await checkpointer.aget_tuple(locate(point.thread_id))
        if (latest.checkpoint["id"] if latest is not None else None) == restored:
            return restored
    raise RuntimeError(
        f"thread {point.thread_id} is still being written to: end its run before rolling it back"
    )


async def _restore(saver: BaseCheckpointSaver[Any], point: RollbackPoint) -> str | None:
    newest = await saver.aget_tuple(locate(point.thread_id))
    if point.checkpoint is None:
        if newest is not None:
            await saver.adelete_thread(point.thread_id)
        return None
    wanted = dict(point.subgraphs)
    names: list[str] = []
    if newest is not None:
        # A graph's first step may be missing from the checkpoint that it was stopped at.
        names = node_names(newest)
        undone = await _undone_ids(saver, point.checkpoint, newest)
        await _find_lasting_subgraphs(saver, point, newest, undone, wanted)
    return await CheckpointCopier(saver, point.thread_id, wanted, names).copy(point.checkpoint)


async def _undone_ids(
    saver: BaseCheckpointSaver[Any], before: CheckpointTuple, newest: CheckpointTuple | None
) -> set[str]:
    """The ids of the run's own checkpoints, from the newest back to the one before it."""
    # A rollback that was done already left a second child of its parent.
    known = {before.checkpoint["id"], checkpoint_id_of(before.parent_config)}
    undone: set[str] = set()
    while newest is not None and newest.checkpoint["id"] not in known:
        undone.add(newest.checkpoint["id"])
        parent = newest.parent_config
        if parent is None or checkpoint_id_of(parent) in undone:
            break
        newest = await saver.aget_tuple(parent)
    return undone


async def _find_lasting_subgraphs(
    saver: BaseCheckpointSaver[Any],
    point: RollbackPoint,
    graph: CheckpointTuple,
    undone: set[str],
    wanted: dict[str, CheckpointTuple],
) -> None:
    """Add the earlier states of subgraphs that keep their state over runs, where the run moved it.

    A subgraph that had no state before is emptied at once.
    """
    outer = graph.config["configurable"].get("checkpoint_ns", "")
    prefix = f"{outer}|" if outer else ""
    names = dict.fromkeys(node_names(graph))
    if not outer and point.checkpoint is not None:
        names.update(dict.fromkeys(node_names(point.checkpoint)))
    for name in names:
        call = 0
        while True:
            namespace = f"{prefix}{name}|{call}" if call else f"{prefix}{name}"
            newest = await saver.aget_tuple(locate(point.thread_id, namespace))
            if newest is None:
                break
            call += 1
            if namespace not in wanted and _made_by(newest, undone, point):
                earlier = await _before(saver, newest, undone, point)
                if earlier is None:
                    await CheckpointCopier(saver, point.thread_id).put_empty(newest)
                else:
                    wanted[namespace] = earlier
            await _find_lasting_subgraphs(saver, point, newest, undone, wanted)


def _made_by(saved: CheckpointTuple, undone: set[str], point: RollbackPoint) -> bool:
    root = saved.metadata.get("parents", {}).get("")
    if root in undone:
        return True
    # The first step of a resumed run still belongs to the checkpoint it was stopped at; what
    # that checkpoint's subgraphs were before was captured with it.
    return (
        point.checkpoint is not None
        and root == point.checkpoint.checkpoint["id"]
        and has_pending_tasks(point.checkpoint)
    )


async def _before(
    saver: BaseCheckpointSaver[Any], newest: CheckpointTuple, undone: set[str], point: RollbackPoint
) -> CheckpointTuple | None:
    """The state that a subgraph had before the run."""
    saved: CheckpointTuple | None = newest
    visited: set[str] = set()
    while saved is not None and _made_by(saved, undone, point):
        visited.add(saved.checkpoint["id"])
        if saved.parent_config is None or checkpoint_id_of(saved.parent_config) in visited:
            return None
        saved = await saver.aget_tuple(saved.parent_config)
    return saved
