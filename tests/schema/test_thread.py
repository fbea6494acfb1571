"""Blocking calls on the schema's thread, and callers that go away."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import pytest

from deerstore.schema.thread import SchemaThread


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_cancelled_caller_goes_when_its_call_has_ended(times: int):
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    stopped, ended = threading.Event(), threading.Event()

    def call() -> None:
        stopped.wait(5)
        time.sleep(0.1)
        ended.set()
        raise RuntimeError("stopped")

    async def work() -> None:
        async with SchemaThread(stopped.set) as thread:
            await thread.run(call)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0.05)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.02)
    await asyncio.wait({task})
    assert task.cancelled()
    assert ended.is_set()
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_a_caller_does_not_wait_for_a_call_that_hangs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("deerstore.schema.thread._END_WAIT", 0.2)
    freed = threading.Event()
    thread = SchemaThread(lambda: None)

    async def work() -> None:
        async with thread:
            await thread.run(freed.wait, 5)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0.05)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 2
    assert thread.hangs
    freed.set()
