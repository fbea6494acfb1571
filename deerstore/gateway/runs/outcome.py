"""How a run ends: what a cancel can come to, and how an outcome is written."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from deerstore.repositories import RunFinalization, RunRepository

__all__ = ["CancelOutcome", "write_outcome"]


class CancelOutcome(StrEnum):
    """What a call of :meth:`RunManager.cancel` did."""

    CANCELLED = "cancelled"
    """The run was this worker's, or nobody's task: it is stopped, or has been before."""
    REQUESTED = "requested"
    """Another live worker owns the run; its next heartbeat hands it the request."""
    TAKEN_OVER = "taken_over"
    """The owner's lease had run out: the run is ended as an error."""
    NOT_CANCELLABLE = "not_cancellable"
    """The run has ended already."""
    UNKNOWN = "unknown"
    """There is no such run."""


async def write_outcome(
    runs: RunRepository,
    run_id: str,
    status: str,
    error: str | None,
    stop_reason: str | None,
    completion: dict[str, Any],
) -> RunFinalization:
    """End a run and write its figures, in the transaction of ``runs``.

    ``interrupted`` is how a cancel is obeyed, so that a recorded one does not stand in its way;
    every other outcome gives way to it.
    """
    if status == "interrupted":
        changed = await runs.update_run_status(run_id, status, error=error, stop_reason=stop_reason)
        outcome = RunFinalization(finalized=changed)
    else:
        outcome = await runs.finalize_run(
            run_id, status=status, error=error, stop_reason=stop_reason
        )
        if not outcome.finalized and status == "error":
            outcome = await _end_rollback(runs, run_id, outcome, error, stop_reason)
    if outcome.finalized and completion:
        await runs.update_run_completion(run_id, status=status, error=error, **completion)
    return outcome


async def _end_rollback(
    runs: RunRepository,
    run_id: str,
    outcome: RunFinalization,
    error: str | None,
    stop_reason: str | None,
) -> RunFinalization:
    """An interrupted run may still become an error: that is how its rollback ends."""
    run = await runs.get_run(run_id)
    if run is None or run.status != "interrupted":
        return outcome
    changed = await runs.update_run_status(run_id, "error", error=error, stop_reason=stop_reason)
    return RunFinalization(finalized=changed, cancel_action=outcome.cancel_action)
