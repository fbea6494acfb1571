"""Writes a checkpoint once more, under another id, namespace or thread, with all that hangs on it.

Used by rollback and branch alike. What belongs to a checkpoint:

- its channels, which some savers keep apart by version;
- its pending writes, filed under the ids its tasks have now (see ``checkpoint_ids``);
- the states of its subgraphs, whose namespaces contain those task ids;
- for a ``DeltaChannel`` the ancestors back to the last snapshot, where the copy leaves them behind.

Order of writing: subgraphs, then pending writes, then the checkpoint itself. Until the last of
these is there, nothing of the copy is visible, so a crash half-way changes nothing.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from deerstore.gateway.checkpoints.ids import (
    NULL_TASK_ID,
    TaskKey,
    checkpoint_id_after,
    interrupt_ids,
    node_names,
    task_keys,
)

__all__ = ["CheckpointCopier", "checkpoint_id_of", "has_pending_tasks", "load_subgraphs", "locate"]

_log = logging.getLogger(__name__)

_DELTA_COUNTERS = "counters_since_delta_snapshot"
_INTERRUPT = "__interrupt__"


def locate(thread_id: str, namespace: str = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that addresses a checkpoint; without an id, the latest."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            **({"checkpoint_id": checkpoint_id} if checkpoint_id else {}),
        }
    }


def checkpoint_id_of(config: RunnableConfig | None) -> str | None:
    """The checkpoint id in a config, if there is one."""
    return config["configurable"].get("checkpoint_id") if config else None


def has_pending_tasks(saved: CheckpointTuple) -> bool:
    """Whether tasks may be waiting at a checkpoint: stopped, failed or cut off half-way.

    It may say yes where nothing waits, never no where something does.
    """
    if any(task_id != NULL_TASK_ID for task_id, _, _ in saved.pending_writes or ()):
        return True
    return any(_is_triggered(saved, key) for key in task_keys(saved))


def _is_triggered(saved: CheckpointTuple, key: TaskKey) -> bool:
    """Whether one of a node's channels holds something that the node has not seen."""
    checkpoint = saved.checkpoint
    seen = checkpoint["versions_seen"].get(key.name, {})
    return not key.triggers or any(
        channel in checkpoint["channel_values"]
        and checkpoint["channel_versions"].get(channel) != seen.get(channel)
        for channel in key.triggers
    )


async def load_subgraphs(
    saver: BaseCheckpointSaver[Any], saved: CheckpointTuple, *, with_tasks: bool = True
) -> dict[str, CheckpointTuple]:
    """The latest states of a checkpoint's subgraphs, by namespace.

    Those that keep their state over runs, and with ``with_tasks`` those that pending tasks have
    started.
    """
    found: dict[str, CheckpointTuple] = {}
    thread_id, namespace, checkpoint_id = _place(saved)
    prefix = f"{namespace}|" if namespace else ""
    # A subgraph that keeps its state over runs has no task id in its namespace.
    names = dict.fromkeys(f"{prefix}{name}" for name in node_names(saved))
    if with_tasks:
        pending = {str(task_id) for task_id, _, _ in saved.pending_writes or ()}
        for key in task_keys(saved):
            task_id = key.id_in(checkpoint_id, namespace)
            if task_id in pending or _is_triggered(saved, key):
                names[f"{prefix}{key.name}:{task_id}"] = None
    for name in names:
        call = 0
        # A node that calls a subgraph again numbers the call.
        while subgraph := await saver.aget_tuple(
            locate(thread_id, f"{name}|{call}" if call else name)
        ):
            found[_place(subgraph)[1]] = subgraph
            found.update(await load_subgraphs(saver, subgraph, with_tasks=with_tasks))
            call += 1
    return found


def _place(saved: CheckpointTuple) -> tuple[str, str, str]:
    configurable = saved.config["configurable"]
    return (
        configurable["thread_id"],
        configurable.get("checkpoint_ns", ""),
        saved.checkpoint["id"],
    )


@dataclass(slots=True)
class CheckpointCopier:
    """Copies checkpoints of one thread into ``thread_id``, which may be the same one.

    ``subgraphs`` holds the states to copy along, by their namespace; ``names`` are nodes of the
    graph that a copied checkpoint may not mention.
    """

    saver: BaseCheckpointSaver[Any]
    thread_id: str
    subgraphs: Mapping[str, CheckpointTuple] = field(default_factory=dict)
    names: Sequence[str] = ()
    _interrupts: dict[str, str] = field(default_factory=dict)

    async def copy(
        self,
        saved: CheckpointTuple,
        namespace: str | None = None,
        parents: Mapping[str, str] | None = None,
    ) -> str:
        """Write ``saved`` as the newest checkpoint of ``namespace``; gives the new id.

        ``namespace`` defaults to its own. ``parents`` are the ids of the graphs around it.
        """
        source_thread, source_ns, source_id = _place(saved)
        target_ns = source_ns if namespace is None else namespace
        moves = (source_thread, source_ns) != (self.thread_id, target_ns)
        if moves:
            parent_id, floor = await self._copy_ancestors(saved, target_ns)
        else:
            parent_id, floor = checkpoint_id_of(saved.parent_config), None
        new_id = await self._new_id(saved, target_ns, floor)
        around = dict(parents or {})
        tasks = {
            key.id_in(source_id, source_ns): (key, key.id_in(new_id, target_ns))
            for key in task_keys(saved, self.names)
        }
        await self._copy_subgraphs(
            source_ns, target_ns, {**around, target_ns: new_id}, {k: v[1] for k, v in tasks.items()}
        )
        for old_task, (key, new_task) in tasks.items():
            self._interrupts.update(
                zip(
                    interrupt_ids(source_ns, f"{key.name}:{old_task}"),
                    interrupt_ids(target_ns, f"{key.name}:{new_task}"),
                    strict=True,
                )
            )
        filed = {old: (new, key.path) for old, (key, new) in tasks.items()}
        await self._put_writes(saved, target_ns, new_id, filed)
        # A state that stays in its place keeps saying which run made it.
        await self._put(saved, target_ns, new_id, parent_id, around if moves else None)
        return new_id

    async def put_empty(self, newest: CheckpointTuple) -> str:
        """Write a checkpoint without any state behind ``newest``; gives its id."""
        _, namespace, newest_id = _place(newest)
        empty: Checkpoint = {
            **newest.checkpoint,
            "id": checkpoint_id_after(newest_id),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
            "updated_channels": None,
        }
        # The step before a thread's first input, as LangGraph counts it.
        metadata: CheckpointMetadata = {"source": "fork", "step": -2, "parents": {}}
        await self.saver.aput(locate(self.thread_id, namespace), empty, metadata, {})
        return empty["id"]

    async def _new_id(self, saved: CheckpointTuple, namespace: str, floor: str | None) -> str:
        newest = await self.saver.aget_tuple(locate(self.thread_id, namespace))
        own = saved.checkpoint["id"]
        taken = [i for i in (newest.checkpoint["id"] if newest else None, floor) if i]
        if all(own > other for other in taken) and own < checkpoint_id_after(None):
            # Free here and not in the future: with its own id it keeps its tasks' ids as well.
            return own
        return checkpoint_id_after(max(taken, default=None))

    async def _copy_subgraphs(
        self, source_ns: str, target_ns: str, parents: Mapping[str, str], tasks: Mapping[str, str]
    ) -> None:
        prefix = f"{source_ns}|" if source_ns else ""
        for namespace, subgraph in self.subgraphs.items():
            if not namespace.startswith(prefix) or namespace == source_ns:
                continue
            own, *calls = namespace.removeprefix(prefix).split("|")
            if any(not call.isdigit() for call in calls):
                continue  # it belongs to a subgraph of its own
            name, stateless, task_id = own.partition(":")
            if stateless:
                if task_id not in tasks:
                    continue
                name = f"{name}:{tasks[task_id]}"
            moved = "|".join((name, *calls))
            await self.copy(subgraph, f"{target_ns}|{moved}" if target_ns else moved, parents)

    async def _copy_ancestors(
        self, saved: CheckpointTuple, namespace: str
    ) -> tuple[str | None, str | None]:
        """Copy what a ``DeltaChannel`` is rebuilt from; gives the parent's id, twice or not at all.

        Without such a channel there is nothing to copy: a checkpoint holds all of its values.
        """
        # Not every release of the checkpoint package declares this key.
        metadata: Mapping[str, Any] = saved.metadata
        wanted = set(metadata.get(_DELTA_COUNTERS) or ())
        chain: list[CheckpointTuple] = []
        config = saved.parent_config
        while wanted and config is not None:
            ancestor = await self.saver.aget_tuple(config)
            if ancestor is None:
                break
            chain.append(ancestor)
            wanted -= set(ancestor.checkpoint["channel_values"])
            config = ancestor.parent_config
        ids = [ancestor.checkpoint["id"] for ancestor in chain]
        rising = all(later > earlier for later, earlier in pairwise(ids))
        parent_id: str | None = None
        for ancestor in reversed(chain):
            new_id = ancestor.checkpoint["id"] if rising else checkpoint_id_after(parent_id)
            await self._put_writes(ancestor, namespace, new_id, None)
            await self._put(ancestor, namespace, new_id, parent_id, None)
            parent_id = new_id
        return parent_id, parent_id

    async def _put(
        self,
        saved: CheckpointTuple,
        namespace: str,
        new_id: str,
        parent_id: str | None,
        parents: Mapping[str, str] | None,
    ) -> None:
        checkpoint: Checkpoint = {
            **saved.checkpoint,
            "id": new_id,
            "ts": datetime.now(UTC).isoformat(),
        }
        metadata: CheckpointMetadata = {
            **saved.metadata,
            "source": "fork",
            "parents": dict(saved.metadata.get("parents", {}) if parents is None else parents),
        }
        # Every version is passed as new: a saver that keeps contents apart stores those that
        # the namespace does not have, and leaves the others.
        await self.saver.aput(
            locate(self.thread_id, namespace, parent_id),
            checkpoint,
            metadata,
            checkpoint["channel_versions"],
        )

    async def _put_writes(
        self,
        saved: CheckpointTuple,
        namespace: str,
        new_id: str,
        tasks: Mapping[str, tuple[str, str]] | None,
    ) -> None:
        """File the pending writes anew. ``tasks=None`` keeps the task ids, for an ancestor."""
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task_id, channel, value in saved.pending_writes or ():
            by_task.setdefault(str(task_id), []).append((channel, self._renamed(channel, value)))
        config = locate(self.thread_id, namespace, new_id)
        for position, (task_id, writes) in enumerate(by_task.items()):
            if tasks is None:
                # Replayed in the order of the path, which the saver does not give out.
                filed = (task_id, f"~{position:010d}")
            elif task_id == NULL_TASK_ID:
                filed = (task_id, "")
            elif task_id in tasks:
                filed = tasks[task_id]
            else:
                _log.warning(
                    "thread %s: the pending writes of task %s belong to no node that the "
                    "checkpoint names; the task will run again",
                    self.thread_id,
                    task_id,
                )
                continue
            # A regular write is numbered by its place in the list, a special one has a number of
            # its own: the special ones go last, or the numbers would shift.
            writes.sort(key=lambda write: write[0] in WRITES_IDX_MAP)
            await self.saver.aput_writes(config, writes, *filed)

    def _renamed(self, channel: str, value: Any) -> Any:
        """A pending interrupt with the id that its task gives it now."""
        if channel != _INTERRUPT or not isinstance(value, list | tuple):
            return value
        renamed = []
        for interrupt in value:
            new_id = self._interrupts.get(getattr(interrupt, "id", ""))
            if new_id is not None:
                interrupt = copy.copy(interrupt)  # noqa: PLW2901
                interrupt.id = new_id
            renamed.append(interrupt)
        return type(value)(renamed)
