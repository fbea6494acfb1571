"""Ends the runs of workers that died."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from deerstore.repositories import Run, RunRepository

__all__ = ["ORPHANED", "end_orphans"]

ORPHANED = "The worker stopped before the run ended."
"""The ``error`` of an orphan."""


async def end_orphans(
    runs: RunRepository,
    *,
    error: str,
    grace_seconds: float,
    before: datetime | str | None,
    leased_only: bool,
    former_worker: str | None,
    is_held: Callable[[str], bool],
) -> list[Run]:
    """End pending and running rows without a live owner as errors; gives them as ended.

    ``former_worker`` names an owner that is known to be dead, whatever its leases say.
    ``leased_only`` spares rows that never had a lease. What ``is_held`` is spared.
    """
    ended = []
    for orphan in await runs.list_expired_inflight(before=before, grace_seconds=grace_seconds):
        if is_held(orphan.run_id) or (leased_only and orphan.lease_expires_at is None):
            continue
        # The list is a hint; this write looks again.
        if await runs.claim_expired_run(orphan.run_id, grace_seconds=grace_seconds, error=error):
            ended.append(await runs.get_run(orphan.run_id) or orphan)
    if former_worker is not None:
        for orphan in await runs.list_inflight(before=before):
            if orphan.owner_worker_id != former_worker or is_held(orphan.run_id):
                continue
            if await runs.update_run_status(orphan.run_id, "error", error=error):
                ended.append(await runs.get_run(orphan.run_id) or orphan)
    return ended
