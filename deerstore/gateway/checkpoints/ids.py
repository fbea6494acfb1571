"""Checkpoint ids, and the task ids that LangGraph derives from them.

A saver's latest checkpoint is the one whose id is the greatest text, so an id that has to win
must be greater than what is there, and not only later by the clock.

The id of a task is a hash over the checkpoint's id, the namespace, the step, the node and what
triggered it. Pending writes are filed under task ids, an interrupt's id and the namespace of a
subgraph contain one. A copied checkpoint with a new id therefore gets other tasks than the old
one, and its pending writes have to be filed under *their* ids. The graph is not at hand here, but
the checkpoint names its nodes and channels, and a guess is proven by hashing to the old id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from xxhash import xxh3_128_hexdigest

__all__ = [
    "NULL_TASK_ID",
    "TaskKey",
    "checkpoint_id_after",
    "interrupt_ids",
    "node_names",
    "task_keys",
]

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that belong to the checkpoint itself."""

_PUSH, _PULL = "__pregel_push", "__pregel_pull"
_TASKS, _START = "__pregel_tasks", "__start__"
_BRANCH_TO, _JOIN = "branch:to:", "join:"
_LOW_62_BITS = (1 << 62) - 1
# More answers than a task is likely to hold before it asks again.
_MAX_ANSWERS = 64


def checkpoint_id_after(newest: str | None) -> str:
    """A new checkpoint id that sorts behind ``newest``, and is no earlier than now."""
    fresh = uuid6()
    if newest is None or str(fresh) > newest:
        return str(fresh)
    # The existing id lies in the future: count on from it, and not from the clock, so that the
    # thread returns to real time as soon as it can.
    value = UUID(newest).int
    high, version, low = value >> 80, (value >> 76) & 0xF, (value >> 64) & 0xFFF
    if version < 6:
        timestamp = (high << 12) | low
    elif version > 6:
        timestamp = (high << 12) | 0xFFF
        timestamp += 1
    else:
        timestamp = ((high << 12) | low) + 1
    if timestamp >> 60:
        raise ValueError(f"no checkpoint id sorts behind {newest}")
    successor = ((timestamp >> 12) << 80) | (6 << 76) | ((timestamp & 0xFFF) << 64)
    return str(UUID(int=successor | (0b10 << 62) | (fresh.int & _LOW_62_BITS)))


@dataclass(frozen=True, slots=True)
class TaskKey:
    """A task as its id is derived from it, checkpoint and namespace aside.

    ``path`` is what a saver orders writes by; ``triggers`` are the channels that start the node,
    none for a ``Send``.
    """

    name: str
    parts: tuple[str, ...]
    path: str
    triggers: tuple[str, ...] = ()

    def id_in(self, checkpoint_id: str, namespace: str) -> str:
        """The task's id under a checkpoint of a namespace (of the graph, not of the task)."""
        own = f"{namespace}|{self.name}" if namespace else self.name
        digest = xxh3_128_hexdigest(
            UUID(checkpoint_id).bytes + "".join((own, *self.parts)).encode()
        )
        return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def task_keys(saved: CheckpointTuple, more_names: Iterable[str] = ()) -> list[TaskKey]:
    """The tasks that may be pending at a checkpoint.

    Some are guesses that no graph would make; they hash to ids that nothing carries.
    ``more_names`` are nodes that the checkpoint may not mention.
    """
    step = str(saved.metadata.get("step", -2) + 1)
    keys = [
        TaskKey(node, (step, node, _PUSH, str(index)), f"~{_PUSH}, {index:010d}, {0:010d}")
        for index, node in _sends(saved)
    ]
    for name in dict.fromkeys([*node_names(saved), *more_names]):
        keys += [
            TaskKey(name, (step, name, _PULL, *triggers), f"~{_PULL}, {name}", triggers)
            for triggers in _triggers(saved, name)
        ]
    return keys


def node_names(saved: CheckpointTuple) -> list[str]:
    """The graph's nodes as far as the checkpoint mentions them."""
    names = dict.fromkeys(saved.checkpoint["versions_seen"])
    for channel in saved.checkpoint["channel_versions"]:
        if channel.startswith(_BRANCH_TO):
            names[channel.removeprefix(_BRANCH_TO)] = None
        elif channel.startswith(_JOIN):
            names[channel.rpartition(":")[2]] = None
    names.update(dict.fromkeys(node for _, node in _sends(saved)))
    return [name for name in names if name == _START or not name.startswith("__")]


def interrupt_ids(namespace: str, task: str) -> list[str]:
    """The ids of the first interrupts that a task raises, one per answer it already has."""
    own = f"{namespace}|{task}" if namespace else task
    return [
        xxh3_128_hexdigest((f"{own}|{answered}" if answered else own).encode())
        for answered in range(_MAX_ANSWERS)
    ]


def _sends(saved: CheckpointTuple) -> Iterator[tuple[int, str]]:
    packets: Any = saved.checkpoint["channel_values"].get(_TASKS) or ()
    for index, packet in enumerate(packets):
        node = getattr(packet, "node", None)
        if isinstance(node, str):
            yield index, node


def _triggers(saved: CheckpointTuple, name: str) -> list[tuple[str, ...]]:
    """What may trigger a node: its branch channel and its joins, or what triggered it before."""
    versions: Mapping[str, Any] = saved.checkpoint["channel_versions"]
    seen = set(saved.checkpoint["versions_seen"].get(name, ()))
    branch = {f"{_BRANCH_TO}{name}"}
    joins = {c for c in versions if c.startswith(_JOIN) and c.endswith(f":{name}")}
    options = [branch | joins, branch, seen, branch | joins | seen, {_START}]
    return list(dict.fromkeys(tuple(sorted(option)) for option in options if option))
