"""The parent's end of the pipe: start the keeper, ask it for servers, read the answers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The environment variables that name a server of the user's own, by engine.
ENVIRONMENT = {
    "postgres": "DEERSTORE_TEST_POSTGRES_URL",
    "mysql": "DEERSTORE_TEST_MYSQL_URL",
}

_ROOT = Path(__file__).resolve().parents[2]


class ServerError(RuntimeError):
    """A server could not be had; the message says what to install or what the server said."""


class Servers:
    """A keeper and the servers it holds. Each server starts when it is first asked for."""

    def __init__(self) -> None:
        self._keeper: subprocess.Popen[str] | None = None
        self._urls: dict[str, str] = {}
        self._turn = threading.Lock()

    def url(self, name: str, *, durable: bool = False) -> str:
        """The administrator's URL of a running server.

        Args:
            name: `postgres` or `mysql`.
            durable: Ask for a second server of that kind, with fsync on, that a test may kill.
        """
        key = f"{name}-durable" if durable else name
        if key not in self._urls:
            self._urls[key] = self._ask("start", key)
        return self._urls[key]

    def stop(self, name: str, *, kill: bool = False) -> None:
        """Stop the durable server of this kind, with SIGKILL when `kill` is set."""
        self._ask("kill" if kill else "stop", f"{name}-durable")

    def start_again(self, name: str) -> None:
        """Start the durable server of this kind after `stop`, on the same port and data."""
        self._ask("start", f"{name}-durable")

    def close(self) -> None:
        """Stop every server and remove their folder. May be called twice."""
        keeper, self._keeper = self._keeper, None
        self._urls.clear()
        if keeper is None:
            return
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        keeper.stdout.close()
        keeper.wait(timeout=60)

    def _ask(self, verb: str, key: str) -> str:
        with self._turn:
            if self._keeper is None:
                self._keeper = subprocess.Popen(
                    [sys.executable, "-m", "tests.servers", "keep"],
                    cwd=_ROOT,
                    env={**os.environ, "PYTHONPATH": str(_ROOT)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # Ctrl-C goes to the parent alone; the keeper ends with the pipe.
                    start_new_session=True,
                )
            assert self._keeper.stdin is not None
            assert self._keeper.stdout is not None
            try:
                self._keeper.stdin.write(f"{verb} {key}\n")
                self._keeper.stdin.flush()
                line = self._keeper.stdout.readline()
            except BrokenPipeError:
                line = ""
            if not line:
                raise ServerError("the keeper of the test servers ended; its own output says why")
            answer = json.loads(line)
            if "error" in answer:
                raise ServerError(answer["error"])
            return str(answer["url"])


@contextlib.contextmanager
def running(names: Iterable[str] = ("postgres", "mysql")) -> Iterator[Servers]:
    """Servers of these kinds, stopped and removed at the end."""
    servers = Servers()
    try:
        for name in names:
            servers.url(name)
        yield servers
    finally:
        servers.close()
