"""A TCP proxy between a client and its server: it counts round trips, cuts and stalls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Stands between a bundle and the server that ``url`` names; ``self.url`` leads through it."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self.trips = 0
        """How often a client spoke after the server had."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        while self._links:
            await asyncio.gather(*(link.done.wait() for link in self._links))

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        user, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{port}"))

    def cut(self) -> None:
        """Reset every connection that there is."""
        for link in self._links:
            link.cut()

    def stall(self) -> None:
        """Let nothing through on the connections that there are, without closing them."""
        for link in self._links:
            link.stalled = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, writer)
        self._links.add(link)
        try:
            await link.run(reader, self._target.hostname, self._target.port)
        finally:
            self._links.discard(link)
            link.done.set()


class _Link:
    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._writers = [client]
        self._answered = True
        self.stalled = False
        self.done = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, host: str, port: int) -> None:
        answers, server = await asyncio.open_connection(host, port)
        self._writers.append(server)
        pumps = [
            asyncio.ensure_future(self._pump(reader, server, asks=True)),
            asyncio.ensure_future(self._pump(answers, self._writers[0], asks=False)),
        ]
        await asyncio.wait(pumps)
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, asks: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if self.stalled:
                    continue
                if asks and self._answered:
                    self._proxy.trips += 1
                self._answered = not asks
                sink.write(data)
                await sink.drain()
        for writer in self._writers:
            writer.close()
