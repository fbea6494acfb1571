"""The process that owns the servers: it reads verbs from its standard input until that ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import IO

from tests.servers.client import ServerError
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.servers.process import Server

_KINDS: dict[str, type[Server]] = {"postgres": Postgres, "mysql": MariaDB}


def keep(commands: IO[str], answers: IO[str]) -> int:
    """Serve `start`, `stop` and `kill` until the input ends, then stop and remove everything."""
    # Only the end of the pipe ends the keeper, so that nothing outlives it half stopped.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = _folder()
    servers: dict[str, Server] = {}
    try:
        for line in commands:
            verb, key = line.split()
            try:
                answer = {"url": _obey(verb, key, servers, folder)}
            except (ServerError, OSError) as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), file=answers, flush=True)
    except BrokenPipeError:
        pass
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _obey(verb: str, key: str, servers: dict[str, Server], folder: Path) -> str:
    if key not in servers:
        name, _, durable = key.partition("-")
        servers[key] = _KINDS[name](folder / key, durable=bool(durable))
    server = servers[key]
    if verb == "start":
        server.start()
    elif verb == "stop":
        server.stop()
    else:
        server.kill()
    return server.url


def _folder() -> Path:
    """A folder that the servers' own users can reach, which a private TMPDIR may not be."""
    for place in (None, "/tmp", "/var/tmp"):
        folder = Path(tempfile.mkdtemp(prefix="deerstore-servers-", dir=place))
        folder.chmod(0o755)
        if os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in folder.parents):
            return folder
        folder.rmdir()
    raise ServerError("no temporary folder that an unprivileged user can reach: set TMPDIR to one")
