"""The example gateway, served on a free port, and its public client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import pytest
import uvicorn
from langgraph_sdk import get_client

from examples.gateway.app import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import FastAPI
    from langgraph_sdk.client import LangGraphClient


class _Server(uvicorn.Server):
    """Says when it is ready, and leaves the signals to the test runner."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=3))
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self):
        yield


@contextlib.asynccontextmanager
async def served(url: str, **settings: object) -> AsyncIterator[tuple[str, FastAPI]]:
    """The service over the database at `url`: its address, and the app."""
    app = create_app(url, **settings)
    listener = socket.create_server(("127.0.0.1", 0))
    server = _Server(app)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.wait_for(server.ready.wait(), 60)
        assert server.started, "the service did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", app
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def gateway(storage_url: str) -> AsyncIterator[str]:
    """The address of a gateway over a fresh database."""
    async with served(storage_url, drain_seconds=0) as (address, _):
        yield address


@pytest.fixture
async def connect(gateway: str) -> AsyncIterator[Callable[[str], LangGraphClient]]:
    """Makes the client of a user."""
    async with contextlib.AsyncExitStack() as clients:
        made: list[LangGraphClient] = []

        def client(user: str) -> LangGraphClient:
            made.append(get_client(url=gateway, api_key=None, headers={"x-user-id": user}))
            clients.push_async_callback(made[-1].aclose)
            return made[-1]

        yield client


@pytest.fixture
def client(connect: Callable[[str], LangGraphClient]) -> LangGraphClient:
    """Ada's client."""
    return connect("ada")
