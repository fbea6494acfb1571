"""What a gateway does with whole states of a thread: roll a run back, branch a thread."""

from __future__ import annotations

from deerstore.gateway.checkpoints.branch import branch_thread
from deerstore.gateway.checkpoints.rollback import (
    RollbackPoint,
    capture_rollback_point,
    rollback_to,
)

__all__ = ["RollbackPoint", "branch_thread", "capture_rollback_point", "rollback_to"]
