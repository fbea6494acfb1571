"""One run writes in the stated order; killed after any step, it leaves a clear state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deerstore.gateway import current_user, gateway_runtime
from deerstore.gateway.runs.recovery import ORPHANED
from examples.gateway.agent import ASSISTANT_ID, build_agent
from examples.gateway.bridge import StreamBridge
from examples.gateway.shapes import RunRequest
from examples.gateway.worker import Worker
from tests.examples.victim import QUESTION, STEPS, USER, WORKER_ID

if TYPE_CHECKING:
    from deerstore.gateway.runtime import GatewayRuntime

ROOT = Path(__file__).resolve().parents[2]
UNDISTURBED = "nothing"
ANSWERED = ["human", "ai", "tool", "ai"]


async def test_a_run_killed_after_any_step_leaves_a_clear_state(storage_url: str) -> None:
    said = victims(storage_url, [UNDISTURBED, *STEPS])
    assert_order([each["step"] for each in said[UNDISTURBED] if "step" in each])
    assert said[UNDISTURBED][-1]["ended"] == 0
    for step in STEPS:
        assert said[step][-1]["ended"] == -signal.SIGKILL, said[step]

    async with gateway_runtime(storage_url, worker_id=WORKER_ID) as runtime:
        agent = build_agent(runtime.checkpointer, runtime.store)
        worker = Worker(runtime, agent, StreamBridge())
        assert await runtime.run_store.list_inflight() == []
        with current_user(USER):
            for step in STEPS:
                await assert_rows_are_clear(runtime, step)
                await assert_acknowledged_events_are_there(runtime, step, said[step])
                await assert_the_checkpoint_resumes(worker, step)


def victims(url: str, steps: list[str]) -> dict[str, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.victim", *steps],
        cwd=ROOT,
        env={**os.environ, "VICTIM_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, list[dict[str, Any]]] = {step: [] for step in steps}
    for line in done.stdout.splitlines():
        spoken = json.loads(line)
        said[spoken["thread"]].append(spoken)
    return said


def assert_order(steps: list[str]) -> None:
    assert steps[:4] == list(STEPS[:4])
    assert set(steps[4:-4]) == {"checkpoints", "events"}
    assert steps[-4:] == list(STEPS[-4:])
    # The journal's last events are written by the flush itself, after the last checkpoint.
    assert steps[-5] == "events"
    last_checkpoint = max(at for at, step in enumerate(steps) if step == "checkpoints")
    assert last_checkpoint < len(steps) - 5


async def assert_rows_are_clear(runtime: GatewayRuntime, step: str) -> None:
    (run,) = await runtime.run_store.list_by_thread(step)
    thread = await runtime.thread_store.get(step)
    assert thread is not None
    ended = STEPS.index(step) >= STEPS.index("outcome")
    shown = {"pending row": "idle"}.get(step, "idle" if ended else "error")
    assert (run["status"], thread["status"]) == ("success" if ended else "error", shown), step
    assert run["error"] == (None if ended else ORPHANED)
    if ended:
        assert run["total_tokens"] > 0
        assert run["first_human_message"] == QUESTION
        assert run["last_ai_message"] == "Lisbon: sunny, 24 degrees."
        assert thread["display_name"] == (None if step == "outcome" else QUESTION)


async def assert_acknowledged_events_are_there(
    runtime: GatewayRuntime, step: str, said: list[dict[str, Any]]
) -> None:
    acknowledged = {seq for each in said for seq in each.get("acknowledged", [])}
    (run,) = await runtime.run_store.list_by_thread(step)
    stored = [row["seq"] for row in await runtime.run_event_store.list_events(step, run["run_id"])]
    assert acknowledged <= set(stored), step
    assert stored == list(range(1, len(stored) + 1))
    if STEPS.index(step) >= STEPS.index("flush"):
        assert len(acknowledged) == len(stored) == 6


async def assert_the_checkpoint_resumes(worker: Worker, step: str) -> None:
    state = await worker.state(step)
    begun = STEPS.index(step) >= STEPS.index("checkpoints")
    assert bool(state.values) or not begun, step
    if step == "checkpoints":
        assert state.tasks
    if state.tasks:
        await turn(worker, step, None)
        state = await worker.state(step)
    if begun:
        assert [message.type for message in state.values["messages"]] == ANSWERED, step
    await turn(worker, step, {"messages": [{"role": "user", "content": "thanks"}]})
    messages = (await worker.state(step)).values["messages"]
    earlier = ANSWERED if state.values else []
    assert [message.type for message in messages] == [*earlier, "human", "ai"], step
    assert messages[-1].content == "You said: thanks"


async def turn(worker: Worker, thread: str, given: Any) -> None:
    request = RunRequest(assistant_id=ASSISTANT_ID, input=given)
    row = await worker.wait(await worker.begin(thread, request, user_id=USER))
    assert row is not None
    assert row["status"] == "success", row["error"]
