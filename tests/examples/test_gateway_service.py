"""The example gateway as a service: started by one command, stopped, started again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import ConflictError

from examples.gateway.bridge import StreamBridge
from tests.examples.conftest import served

ROOT = Path(__file__).resolve().parents[2]


async def test_a_stop_interrupts_what_runs_and_a_start_goes_on(storage_url: str) -> None:
    """The run's answer so far is kept; the thread takes the next run."""
    slowly = {"messages": [{"role": "user", "content": "count slowly"}]}
    async with (
        served(storage_url, worker_id="w", drain_seconds=0) as (address, _),
        get_client(url=address, api_key=None) as client,
    ):
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=slowly, stream_mode="messages")
        async for part in client.runs.join_stream(thread_id, run["run_id"]):
            if part.event == "messages/partial":
                break
    async with (
        served(storage_url, worker_id="w", drain_seconds=0) as (address, _),
        get_client(url=address, api_key=None) as client,
    ):
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
        assert (await client.threads.get(thread_id))["status"] == "interrupted"
        messages = await client.http.get(f"/threads/{thread_id}/messages")
        assert [row["content"]["type"] for row in messages] == ["human", "ai"]
        # The stream ended with its process; how the run ended did not.
        late = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
        assert [part.event for part in late] == ["values", "end"]
        assert late[-1].data["status"] == "interrupted"
        hello = {"messages": [{"role": "user", "content": "hello"}]}
        values = await client.runs.wait(thread_id, "agent", input=hello)
        assert values["messages"][-1]["content"] == "You said: hello"


async def test_two_workers_share_a_database(storage_url: str) -> None:
    """A run is stopped through the worker that does not carry it out, and by a plain statement."""
    slowly = {"messages": [{"role": "user", "content": "count slowly"}]}
    settings: dict[str, Any] = {"lease_seconds": 1.5, "grace_seconds": 60, "drain_seconds": 0}
    async with (
        served(storage_url, worker_id="a", **settings) as (a, app),
        served(storage_url, worker_id="b", **settings) as (b, _),
        get_client(url=a, api_key=None) as here,
        get_client(url=b, api_key=None) as there,
    ):
        thread_id = (await here.threads.create())["thread_id"]
        run = await here.runs.create(thread_id, "agent", input=slowly)
        with pytest.raises(ConflictError) as conflict:
            await there.runs.create(
                thread_id, "agent", input=slowly, multitask_strategy="interrupt"
            )
        assert conflict.value.body["reason"] == "other_worker"
        await there.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
        assert (await there.runs.get(thread_id, run["run_id"]))["status"] == "error"
        assert (await there.threads.get_state(thread_id))["values"] == {}
        assert (await here.threads.get(thread_id))["status"] == "idle"

        run = await here.runs.create(thread_id, "agent", input=slowly)
        await app.state.worker.runtime.run_store.update_status(
            run["run_id"], "error", error="by hand"
        )
        parts = [part async for part in here.runs.join_stream(thread_id, run["run_id"])]
        assert [part.event for part in parts][-2:] == ["error", "end"]
        assert (await here.runs.get(thread_id, run["run_id"]))["error"] == "by hand"


@pytest.mark.slow
@pytest.mark.engines("sqlite", why="the command is the same for each")
def test_one_command_starts_it(engine: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    service = subprocess.Popen(
        [sys.executable, "-m", "examples.gateway", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "GATEWAY_URL": f"sqlite:///{tmp_path / 'gateway.db'}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert service.stderr is not None
    try:
        said = [next(line for line in service.stderr if "running on" in line)]
        search = f"http://127.0.0.1:{port}/threads/search"
        answer = httpx.post(search, json={"limit": 1}, timeout=30)
        assert (answer.status_code, answer.json()) == (200, [])
    finally:
        service.send_signal(signal.SIGTERM)
        said += service.communicate(timeout=60)[1:]
    assert "Traceback" not in "".join(said), said


class TestBridge:
    async def test_listeners_get_everything_in_order_whenever_they_come(self) -> None:
        bridge = StreamBridge()
        bridge.open("r")

        async def listen(after: int = 0) -> list[tuple[int, str]]:
            return [(each.id, each.data) async for each in bridge.listen("r", after=after)]

        early = asyncio.create_task(listen())
        for number in range(5):
            bridge.publish("r", "n", number)
            if number == 2:
                middle = asyncio.create_task(listen(2))
                await asyncio.sleep(0)
        bridge.close("r")
        everything = [(number + 1, str(number)) for number in range(5)]
        assert await early == everything
        assert await middle == everything[2:]
        assert await listen() == everything
        assert await listen(5) == []

    async def test_memory_is_bounded(self) -> None:
        bridge = StreamBridge(max_events=3, max_ended=2)
        for run_id in ("a", "b", "c"):
            bridge.open(run_id)
            for number in range(10):
                bridge.publish(run_id, "n", number)
            bridge.close(run_id)
        assert "a" not in bridge
        kept: list[Any] = [each.id async for each in bridge.listen("c")]
        assert kept == [8, 9, 10]
