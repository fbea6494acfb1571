"""A network that is not free: a proxy in a process of its own that holds everything for a while.

``python -m benchmarks.delay HOST PORT SECONDS`` prints the port it listens on, and ends with its
standard input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

from benchmarks.places import Place
from deerstore.config import StorageConfig

__all__ = ["delayed"]


@asynccontextmanager
async def delayed(place: Place, seconds: float) -> AsyncIterator[Place]:
    """The same database, ``seconds`` away in each round trip."""
    assert place.config.database_url is not None
    url = urlsplit(place.config.database_url.get_secret_value())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.delay", str(url.hostname), str(url.port), str(seconds),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        user, at, _ = url.netloc.rpartition("@")
        there = urlunsplit(url._replace(netloc=f"{user}{at}127.0.0.1:{port}"))
        yield place._replace(config=StorageConfig(database_url=there))
    finally:
        process.stdin.close()
        await process.wait()


class _Forward(asyncio.Protocol):
    """One direction of a connection: what arrives leaves after the delay, in order."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self.sink: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def join(self, sink: asyncio.Transport) -> None:
        self.sink = sink
        for data in self._early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self.sink is None:
            self._early.append(data)
        elif self._delay:
            asyncio.get_running_loop().call_later(self._delay, self.sink.write, data)
        else:
            self.sink.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.sink is not None:
            asyncio.get_running_loop().call_later(self._delay, self.sink.close)


async def _serve(host: str, port: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def link(client: _Forward) -> None:
        # Only the answers are held: the sum of both ways is what a caller sees.
        transport, server = await loop.create_connection(lambda: _Forward(seconds), host, port)
        server.join(client.transport)  # type: ignore[arg-type]
        client.join(transport)  # type: ignore[arg-type]

    class Client(_Forward):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            task = loop.create_task(link(self))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await loop.create_server(lambda: Client(0.0), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
