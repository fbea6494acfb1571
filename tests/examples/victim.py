"""Carries out one run per step, and is killed right after it: `python -m tests.examples.victim`.

`VICTIM_URL` names the database, the arguments the steps; each run has a thread of the step's name.
Everything is imported once; each run has a process of its own. What happens is printed as it
happens, one JSON object per line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from deerstore.gateway import RunJournal, current_user, gateway_runtime
from examples.gateway import worker as gateway_worker
from examples.gateway.agent import ASSISTANT_ID, build_agent
from examples.gateway.bridge import StreamBridge
from examples.gateway.shapes import RunRequest
from examples.gateway.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from deerstore.gateway.runtime import GatewayRuntime

USER = "ada"
WORKER_ID = "victim"
QUESTION = "weather in Lisbon"
#: In their order; `checkpoints` is the third of them, when the model has answered once.
STEPS = (
    "pending row",
    "thread running",
    "running",
    "point",
    "checkpoints",
    "events",
    "flush",
    "outcome",
    "title",
    "thread idle",
)


class Watch:
    """Reports the steps of a run, and ends the process with SIGKILL after one of them."""

    def __init__(self, thread: str, last: str) -> None:
        self._thread = thread
        self._last = last
        self._checkpoints = 0

    def install(self, runtime: GatewayRuntime) -> None:
        """Look over the shoulders of whatever the worker calls."""
        self._after(runtime.run_manager, "create_or_reject", lambda *_: "pending row")
        self._after(runtime.run_manager, "start", lambda *_: "running")
        self._after(runtime.run_manager, "finish", lambda *_: "outcome")
        self._after(runtime.thread_store, "update_status", lambda _, args: f"thread {args[1]}")
        self._after(runtime.thread_store, "update_display_name", lambda *_: "title")
        self._after(runtime.run_event_store, "put_batch", lambda *_: "events")
        self._after(runtime.checkpointer, "aput", lambda *_: "checkpoints")
        self._after(gateway_worker, "capture_rollback_point", lambda *_: "point")
        self._after(RunJournal, "flush", lambda *_: "flush")

    def _after(self, owner: Any, name: str, step_of: Callable[[Any, Any], str]) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def watched(*args: Any, **kwargs: Any) -> Any:
            result = await original(*args, **kwargs)
            step = step_of(result, args)
            acknowledged = [row["seq"] for row in result] if step == "events" else []
            say(thread=self._thread, step=step, acknowledged=acknowledged)
            self._checkpoints += step == "checkpoints"
            if step == self._last and (step != "checkpoints" or self._checkpoints == 3):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, watched)


def say(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


async def run(url: str, step: str) -> None:
    async with gateway_runtime(url, worker_id=WORKER_ID) as runtime:
        agent = build_agent(runtime.checkpointer, runtime.store)
        worker = Worker(runtime, agent, StreamBridge(), flush_threshold=2)
        with current_user(USER):
            await runtime.thread_store.create(step)
            Watch(step, step).install(runtime)
            request = RunRequest(
                assistant_id=ASSISTANT_ID,
                input={"messages": [{"role": "user", "content": QUESTION}]},
            )
            await worker.wait(await worker.begin(step, request, user_id=USER))


def main() -> None:
    url = os.environ["VICTIM_URL"]
    for step in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            asyncio.run(run(url, step))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        say(thread=step, ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
