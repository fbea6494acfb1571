"""Keeps the leases of this worker's runs alive, and obeys what the database says meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from deerstore.errors import DeerstoreError
from deerstore.gateway.runs.local import LocalRun
from deerstore.repositories import RunRepository

__all__ = ["LeaseKeeper"]

_log = logging.getLogger("deerstore.gateway")

_RENEWALS_PER_LEASE = 3


class LeaseKeeper:
    """Renews leases, once when asked or in the background.

    Args:
        runs: the table.
        worker_id: the owner.
        lease_seconds: how long a lease holds.
        local: the runs of this worker, as they come and go.
        interrupt: ends a run that was told to stop and has no task.
        until_told: waits until runs that had to make room for newer ones have been told so.
    """

    def __init__(
        self,
        runs: RunRepository,
        worker_id: str,
        lease_seconds: float,
        local: Mapping[str, LocalRun],
        *,
        interrupt: Callable[[str], Awaitable[Any]],
        until_told: Callable[[], Awaitable[None]],
    ) -> None:
        self._runs = runs
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._local = local
        self._interrupt = interrupt
        self._until_told = until_told
        self._beat: asyncio.Task[None] | None = None

    async def renew(self) -> None:
        """Renew each lease once."""
        for local in list(self._local.values()):
            if not local.lost and not local.superseded:
                await self._renew(local)

    def keep_beating(self) -> None:
        """Renew in the background while there are runs."""
        if self._beat is None or self._beat.done():
            self._beat = asyncio.get_running_loop().create_task(self._beat_while_needed())

    async def aclose(self) -> None:
        """Stop renewing."""
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.gather(self._beat, return_exceptions=True)
            self._beat = None

    def has_lost(self, run_id: str) -> bool:
        """Whether this worker must not write for a run of its own any more."""
        local = self._local.get(run_id)
        if local is None or local.holds_lease:
            return False
        self._lose(local)
        return True

    def _lose(self, local: LocalRun) -> None:
        if not local.lost:
            local.lost = True
            _log.warning(
                "the lease of run %s could not be renewed: its task is stopped", local.run_id
            )
        local.signal(None)

    async def _renew(self, local: LocalRun) -> None:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(local.confirmed_until - asked):
                renewal = await self._runs.renew_lease(
                    local.run_id,
                    owner_worker_id=self._worker_id,
                    lease_seconds=self._lease_seconds,
                )
        except (DeerstoreError, TimeoutError) as failure:
            _log.warning("the lease of run %s was not renewed: %s", local.run_id, failure)
            if not local.holds_lease:
                self._lose(local)
            return
        if not renewal.renewed:
            await self._until_told()
        if self._local.get(local.run_id) is not local or local.superseded:
            return
        if not renewal.renewed:
            self._lose(local)
            return
        local.confirmed_until = asked + self._lease_seconds
        if renewal.cancel_action is not None:
            local.signal(renewal.cancel_action)
            if local.task is None:
                await self._interrupt(local.run_id)

    async def _beat_while_needed(self) -> None:
        while self._local:
            await asyncio.sleep(self._lease_seconds / _RENEWALS_PER_LEASE)
            try:
                await self.renew()
            except Exception:  # noqa: BLE001 - it is logged with its traceback
                # The heartbeat must outlive whatever one round of it meets.
                _log.exception("a round of lease renewals failed")
