"""A worker in a process of its own: `python -m tests.gateway.racers <worker_id>`, URL in RACER_URL.

It says `ready`, then carries out one command per line, as JSON, and answers each with a line of
JSON. What each command must come to is for the test to judge.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import TYPE_CHECKING, Any

from deerstore.database import Database
from deerstore.errors import ActiveRunConflictError
from deerstore.gateway import RunManager, StorageRunEventStore
from tests.fixtures.fix_databases import configured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_JITTER_SECONDS = 0.002


class Racer:
    """A run manager and an event store over connections of their own."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._sessions = database.session
        self._managers: dict[float, RunManager] = {}
        self._worker_id = worker_id
        self._events = StorageRunEventStore(self._sessions)

    def _manager(self, lease_seconds: float = 60) -> RunManager:
        if lease_seconds not in self._managers:
            self._managers[lease_seconds] = RunManager(
                self._sessions,
                worker_id=self._worker_id,
                lease_seconds=lease_seconds,
                grace_seconds=0,
                heartbeat=False,
            )
        return self._managers[lease_seconds]

    async def create(self, thread: str, lease_seconds: float = 60, **settings: Any) -> Any:
        """The admitted run, or why it was refused."""
        manager = self._manager(lease_seconds)
        try:
            run = await manager.create_or_reject(thread, **settings)
        except ActiveRunConflictError as conflict:
            return {"refused": conflict.reason}
        return {"run_id": run.run_id}

    async def start(self, run_id: str) -> bool:
        return await self._manager().start(run_id)

    async def finish(self, run_id: str, status: str = "success") -> list[Any]:
        outcome = await self._manager().finish(run_id, status=status, total_tokens=1)
        return [outcome.finalized, outcome.cancel_action]

    async def cancel(self, run_id: str, action: str) -> str:
        return await self._manager().cancel(run_id, action=action)

    async def renew(self, run_id: str) -> bool:
        await self._manager().renew_leases()
        return self._manager().holds_lease(run_id)

    async def reconcile(self) -> list[str]:
        return [run.run_id for run in await self._manager().reconcile_orphaned_inflight_runs()]

    async def append(self, thread: str, run_id: str, count: int) -> list[int]:
        event = {"thread_id": thread, "run_id": run_id, "event_type": "e", "category": "message"}
        rows = await self._events.put_batch([{**event, "content": n} for n in range(count)])
        return [row["seq"] for row in rows]

    async def delete(self, thread: str, run_id: str | None = None) -> int:
        if run_id is None:
            return await self._events.delete_by_thread(thread, user_id=None)
        return await self._events.delete_by_run(thread, run_id, user_id=None)


async def main(worker_id: str) -> None:
    async with await Database.open(configured(os.environ["RACER_URL"])) as database:
        racer = Racer(database, worker_id)
        commands: dict[str, Callable[..., Awaitable[Any]]] = {
            name: getattr(racer, name) for name in vars(Racer) if not name.startswith("_")
        }
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, arguments = json.loads(line)
            # Who comes first is for chance to say, not for the order of the pipes.
            await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))
            print(json.dumps(await commands[name](**arguments)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
