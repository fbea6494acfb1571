"""Workers in processes of their own race for the same run; each is told what came about."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.database import Database
from deerstore.repositories import build_run_event_repository, build_run_repository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from deerstore.repositories import RunRepository

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 8
ROUNDS = 20
RACES = 200


class Workers:
    """Processes that carry out commands at the same moment."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def ask(self, *commands: tuple[str, dict[str, Any]] | None) -> list[Any]:
        """One command for each worker, or none; what each of them says."""
        asked = [
            (process, command)
            for process, command in zip(self._processes, commands, strict=False)
            if command is not None
        ]
        for process, command in asked:
            assert process.stdin is not None
            process.stdin.write((json.dumps(command) + "\n").encode())
        return [json.loads(await _line(process)) for process, _ in asked]


@asynccontextmanager
async def workers(url: str, count: int) -> AsyncIterator[Workers]:
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.gateway.racers", f"w{number}"),
            cwd=ROOT,
            env={**os.environ, "RACER_URL": url},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        for number in range(count)
    ]
    try:
        for process in processes:
            assert await _line(process) == b"ready\n"
        yield Workers(processes)
    finally:
        for process in processes:
            # At the end of its input a worker closes its connections and goes.
            await asyncio.wait_for(process.communicate(b""), 60)


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        assert process.stderr is not None
        pytest.fail((await process.stderr.read()).decode(), pytrace=False)
    return line


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


async def stored(runs: RunRepository, run_id: str) -> Any:
    run = await runs.get_run(run_id)
    assert run is not None
    return run


async def watch(runs: RunRepository, seen: Counter[int], done: asyncio.Event) -> None:
    """Count, again and again, how many runs of the thread are active."""
    while not done.is_set():
        seen[sum(run.thread_id == "t" for run in await runs.list_inflight())] += 1
        await asyncio.sleep(0.001)


async def test_one_of_eight_workers_is_admitted(migrated_url: str, runs: RunRepository) -> None:
    """Each strategy, live owners and dead ones, and one key: at any time one run is active."""
    seen: Counter[int] = Counter()
    done = asyncio.Event()
    watching = asyncio.create_task(watch(runs, seen, done))
    try:
        async with workers(migrated_url, WORKERS) as eight:
            for number in range(ROUNDS):
                for strategy in ("reject", "interrupt", "rollback"):
                    await one_is_admitted(eight, runs, strategy)
                for strategy in ("interrupt", "rollback"):
                    await dead_owners_make_room_in_turn(eight, runs, strategy)
                await one_key_makes_one_run(eight, runs, f"key-{number}")
    finally:
        done.set()
        await watching
    assert set(seen) <= {0, 1}
    assert seen[1] > ROUNDS


async def one_is_admitted(eight: Workers, runs: RunRepository, strategy: str) -> None:
    asked = ("create", {"thread": "t", "multitask_strategy": strategy})
    said = await eight.ask(*[asked] * WORKERS)
    admitted = [each["run_id"] for each in said if "run_id" in each]
    refused = [each["refused"] for each in said if "refused" in each]
    assert len(admitted) == 1
    reason = "active_run" if strategy == "reject" else "other_worker"
    assert refused == [reason] * (WORKERS - 1)
    (active,) = await runs.list_inflight()
    assert (active.run_id, active.status) == (admitted[0], "pending")
    winner = [("finish", {"run_id": admitted[0]}) if "run_id" in each else None for each in said]
    assert await eight.ask(*winner) == [[True, None]]


async def dead_owners_make_room_in_turn(eight: Workers, runs: RunRepository, strategy: str) -> None:
    """Leases that end at once: each run takes the place of the one before it."""
    asked = {"thread": "t", "multitask_strategy": strategy, "lease_seconds": 1e-6}
    said = await eight.ask(*[("create", asked)] * WORKERS)
    admitted = [each["run_id"] for each in said if "run_id" in each]
    # A lease that ends in the same microsecond may still count for who comes right behind.
    assert all(each.get("refused", "other_worker") == "other_worker" for each in said)
    assert admitted
    (active,) = await runs.list_inflight()
    assert active.run_id in admitted
    ended = [await stored(runs, run_id) for run_id in admitted if run_id != active.run_id]
    assert [run.status for run in ended] == ["interrupted"] * len(ended)
    await runs.update_run_status(active.run_id, "success")


async def one_key_makes_one_run(eight: Workers, runs: RunRepository, key: str) -> None:
    asked = ("create", {"thread": "t", "idempotency_key": key})
    said = await eight.ask(*[asked] * WORKERS)
    run_ids = {each.get("run_id") for each in said}
    assert len(run_ids) == 1
    (active,) = await runs.list_inflight()
    assert run_ids == {active.run_id}
    assert active.idempotency_key == key
    owner = int((active.owner_worker_id or "").removeprefix("w"))
    finish = ("finish", {"run_id": active.run_id})
    assert await eight.ask(*(finish if n == owner else None for n in range(WORKERS))) == [
        [True, None]
    ]


async def test_completion_and_cancel(migrated_url: str, runs: RunRepository) -> None:
    """Either the outcome is written and the cancel told so, or the cancel is done."""
    came: Counter[str] = Counter()
    async with workers(migrated_url, 2) as two:
        for number in range(RACES):
            (made,) = await two.ask(("create", {"thread": f"t{number}"}))
            run_id = made["run_id"]
            await two.ask(("start", {"run_id": run_id}))
            action = "rollback" if number % 2 else "interrupt"
            (finalized, told), outcome = await two.ask(
                ("finish", {"run_id": run_id}), ("cancel", {"run_id": run_id, "action": action})
            )
            run = await stored(runs, run_id)
            came[outcome] += 1
            if finalized:
                assert (told, outcome) == (None, "not_cancellable")
                assert (run.status, run.cancel_action, run.total_tokens) == ("success", None, 1)
            else:
                assert (told, outcome) == (action, "requested")
                assert (run.status, run.cancel_action) == ("running", action)
                last = ("finish", {"run_id": run_id, "status": "interrupted"})
                assert await two.ask(last) == [[True, None]]
                assert (await stored(runs, run_id)).status == "interrupted"
    assert set(came) == {"not_cancellable", "requested"}


async def test_heartbeat_and_reconcile(migrated_url: str, runs: RunRepository) -> None:
    """A lease that ran out is renewed, or the run is ended: never both, and both know which."""
    came: Counter[bool] = Counter()
    async with workers(migrated_url, 2) as two:
        for number in range(RACES):
            (made,) = await two.ask(("create", {"thread": f"t{number}"}))
            run_id = made["run_id"]
            await runs.renew_lease(run_id, owner_worker_id="w0", lease_seconds=-60)
            holds, ended = await two.ask(("renew", {"run_id": run_id}), ("reconcile", {}))
            run = await stored(runs, run_id)
            came[holds] += 1
            assert ended == ([] if holds else [run_id])
            assert run.status == ("pending" if holds else "error")
            (outcome,) = await two.ask(("finish", {"run_id": run_id}))
            assert outcome == [holds, None]
            assert (await stored(runs, run_id)).status == ("success" if holds else "error")
    assert set(came) == {True, False}


async def test_delete_and_append(migrated_url: str, database: Database) -> None:
    """A batch is there as a whole or was deleted as a whole, and counted; no number comes twice."""
    events = build_run_event_repository(database)
    came: Counter[int] = Counter()
    async with workers(migrated_url, 2) as two:
        for number in range(RACES):
            thread = f"t{number}"
            batch = {"thread": thread, "run_id": "r"}
            (before,) = await two.ask(("append", {**batch, "count": 2}))
            scope = {"thread": thread} if number % 2 else batch
            added, deleted = await two.ask(("append", {**batch, "count": 3}), ("delete", scope))
            left = [event.seq for event in await events.list_messages(thread)]
            came[deleted] += 1
            assert (before, added) == ([1, 2], [3, 4, 5])
            assert deleted in (2, 5)
            assert left == (added if deleted == 2 else [])
            assert await two.ask(("append", {**batch, "count": 1})) == [[6]]
    assert set(came) == {2, 5}
