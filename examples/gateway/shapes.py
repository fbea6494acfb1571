"""What goes over the wire, as the `langgraph-sdk` client speaks it.

Requests are pydantic models that refuse what this gateway does not do, instead of ignoring it.
Answers are plain dicts, made from the stores' rows and from LangGraph's snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field

from deerstore.gateway import serialize_channel_values_for_api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Interrupt, PregelTask, StateSnapshot

Row = dict[str, Any]
StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug"
]

# The thread's status in the table, and what the client calls it.
_BUSY = {"running": "busy", "busy": "running"}


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ThreadCreate(_Request):
    """`POST /threads`."""

    thread_id: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"


class ThreadPatch(_Request):
    """`PATCH /threads/{id}`: the keys are merged into the metadata."""

    metadata: dict[str, Any]


class ThreadSearch(_Request):
    """`POST /threads/search`."""

    metadata: dict[str, Any] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(default=10, ge=0, le=1000)
    offset: int = Field(default=0, ge=0)

    @property
    def stored_status(self) -> str | None:
        """The status as it stands in the table."""
        return None if self.status is None else _BUSY.get(self.status, self.status)


class CheckpointRef(BaseModel):
    """A place in a thread's history."""

    checkpoint_id: str | None = None
    checkpoint_ns: str = ""


class _At(_Request):
    checkpoint_id: str | None = None
    checkpoint: CheckpointRef | None = None

    def place(self) -> dict[str, Any]:
        """The checkpoint that is meant, for a config; nothing for the latest one."""
        named = self.checkpoint or CheckpointRef(checkpoint_id=self.checkpoint_id)
        return named.model_dump() if named.checkpoint_id else {}


class StateUpdate(_At):
    """`POST /threads/{id}/state`."""

    values: dict[str, Any] | list[dict[str, Any]] | None = None
    as_node: str | None = None


class StateAt(_At):
    """`POST /threads/{id}/state/checkpoint`."""

    subgraphs: bool = False


class HistoryQuery(_Request):
    """`POST /threads/{id}/history`."""

    limit: int = Field(default=10, ge=1, le=1000)
    before: str | CheckpointRef | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: CheckpointRef | None = None


class RunRequest(_At):
    """The body of `POST /threads/{id}/runs`, `…/runs/stream` and `…/runs/wait`."""

    assistant_id: str
    input: Any = None
    command: dict[str, Any] | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    context: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    stream_mode: StreamMode | list[StreamMode] = "values"
    stream_subgraphs: bool = False
    # Every stream here can be taken up again, and no run ends with its listener.
    stream_resumable: bool = False
    on_disconnect: Literal["continue"] = "continue"
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    durability: Literal["sync", "async", "exit"] = "async"
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] = "reject"
    if_not_exists: Literal["reject", "create"] = "reject"

    @property
    def stream_modes(self) -> set[str]:
        """The modes as a set, whichever way they were given."""
        return {self.stream_mode} if isinstance(self.stream_mode, str) else set(self.stream_mode)

    def graph_input(self) -> Any:
        """What the graph is started with: an input, or a command that goes on."""
        if self.command is None:
            return self.input
        known = ("resume", "update", "goto")
        return Command(**{key: self.command[key] for key in known if key in self.command})

    def graph_config(self, thread_id: str) -> RunnableConfig:
        """The caller's config, with the thread and the place in it as the gateway says."""
        asked = self.config.get("configurable") or {}
        # Whoever may name the thread could read any.
        reserved = ("__", "thread_id", "checkpoint")
        mine = {key: asked[key] for key in asked if not key.startswith(reserved)}
        kept = {key: self.config[key] for key in ("tags", "recursion_limit") if key in self.config}
        return {"configurable": {**mine, "thread_id": thread_id, **self.place()}, **kept}  # type: ignore[typeddict-item]


class FeedbackRequest(_Request):
    """`PUT /threads/{id}/runs/{run_id}/feedback`."""

    rating: int
    comment: str | None = None
    message_id: str | None = None


def thread_out(row: Row, snapshot: StateSnapshot | None = None) -> Row:
    """A thread, with its values when its state was read."""
    values: Any = {"title": row["display_name"]} if row["display_name"] else {}
    interrupts: dict[str, Any] = {}
    if snapshot is not None:
        values = serialize_channel_values_for_api(snapshot.values)
        interrupts = {
            task.id: interrupts_out(task.interrupts) for task in snapshot.tasks if task.interrupts
        }
    kept = ("thread_id", "created_at", "updated_at", "metadata", "display_name")
    return {
        **{key: row[key] for key in kept},
        "status": _BUSY.get(row["status"], row["status"]),
        "values": values,
        "interrupts": interrupts,
    }


def run_out(row: Row) -> Row:
    """A run, with its figures."""
    hidden = ("user_id", "idempotency_key", "owner_worker_id", "lease_expires_at")
    return {key: row[key] for key in row if key not in hidden}


def state_out(snapshot: StateSnapshot) -> Row:
    """A thread's state at one checkpoint."""
    checkpoint = checkpoint_out(snapshot.config)
    parent = snapshot.parent_config
    return {
        "values": serialize_channel_values_for_api(snapshot.values),
        "next": list(snapshot.next),
        "checkpoint": checkpoint,
        "metadata": serialize_channel_values_for_api(snapshot.metadata or {}),
        "created_at": snapshot.created_at,
        "parent_checkpoint": checkpoint_out(parent) if parent else None,
        "tasks": [_task(task) for task in snapshot.tasks],
        "interrupts": interrupts_out(snapshot.interrupts),
        "checkpoint_id": checkpoint["checkpoint_id"],
        "parent_checkpoint_id": checkpoint_out(parent)["checkpoint_id"] if parent else None,
    }


def checkpoint_out(config: RunnableConfig) -> Row:
    """The place that a config names."""
    named = config["configurable"]
    return {
        "thread_id": named["thread_id"],
        "checkpoint_ns": named.get("checkpoint_ns", ""),
        "checkpoint_id": named.get("checkpoint_id"),
        "checkpoint_map": named.get("checkpoint_map"),
    }


def interrupts_out(interrupts: Iterable[Interrupt]) -> list[Row]:
    """What the graph asks the human."""
    return [
        {"id": each.id, "value": serialize_channel_values_for_api(each.value)}
        for each in interrupts
    ]


def _task(task: PregelTask) -> Row:
    state = task.state
    return {
        "id": task.id,
        "name": task.name,
        "error": None if task.error is None else str(task.error),
        "interrupts": interrupts_out(task.interrupts),
        # A subgraph's state is read when it is asked for; until then its place is known.
        "checkpoint": checkpoint_out(state) if isinstance(state, dict) else None,
        "state": None if state is None or isinstance(state, dict) else state_out(state),
        "result": serialize_channel_values_for_api(task.result),
    }
