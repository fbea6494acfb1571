"""What only this process knows of a run that it admitted."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LocalRun"]


@dataclass(slots=True, eq=False)
class LocalRun:
    """A run between its admission and its outcome."""

    run_id: str
    confirmed_until: float
    """Monotonic time until which the lease is known to hold."""
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None
    action: str | None = None
    """What it was told to do: ``interrupt`` or ``rollback``."""
    superseded: bool = False
    """It made room for a newer run of this worker: its row is interrupted, its lease is over, and
    nobody else is at work in its thread."""
    lost: bool = False
    """Another worker may be at work in its thread: it must not write."""

    @property
    def holds_lease(self) -> bool:
        """Whether it may still write."""
        return not self.lost and time.monotonic() < self.confirmed_until

    def signal(self, action: str | None) -> None:
        """Tell it to stop; the first action stays."""
        if self.action is None:
            self.action = action
        if not self.abort.is_set():
            self.abort.set()
            if self.task is not None:
                self.task.cancel()
