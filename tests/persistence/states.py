"""Checkpoints for the tests: made as LangGraph makes them."""

from __future__ import annotations

import random
from typing import Any

from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6


def place(thread_id: Any, checkpoint_ns: str = "", **more: Any) -> Any:
    """The `config` of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, **more}}


def state(**values: Any) -> Checkpoint:
    """A checkpoint of some channels, each in its first version."""
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6(clock_seq=-2))
    checkpoint["channel_values"] = values
    # As LangGraph counts them, with a random part: a version stands for one content for ever.
    checkpoint["channel_versions"] = {name: f"{1:032}.{random.random():016}" for name in values}
    return checkpoint


async def put(checkpointer: Any, config: Any, checkpoint: Checkpoint, **metadata: Any) -> Any:
    """Keep a checkpoint whose channels are all new."""
    return await checkpointer.aput(
        config,
        checkpoint,
        {"source": "loop", "step": 1, **metadata},
        checkpoint["channel_versions"],
    )
