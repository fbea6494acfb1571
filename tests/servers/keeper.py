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

_ENOUGH_MEMORY = 2 << 30

_KINDS: dict[str, type[Server]] = {"postgres": Postgres, "mysql": MariaDB}


def keep(commands: IO[str], answers: IO[str]) -> int:
    """Serve `start`, `stop` and `kill` until the input ends, then stop and remove everything."""
    # Only the end of the pipe ends the keeper, so that nothing outlives it half stopped.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders: dict[bool, Path] = {}
    servers: dict[str, Server] = {}
    try:
        for line in commands:
            verb, key = line.split()
            try:
                answer = {"url": _obey(verb, key, servers, folders)}
            except (ServerError, OSError) as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), file=answers, flush=True)
    except BrokenPipeError:
        pass
    finally:
        for server in servers.values():
            server.stop()
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _obey(verb: str, key: str, servers: dict[str, Server], folders: dict[bool, Path]) -> str:
    if key not in servers:
        name, _, suffix = key.partition("-")
        durable = bool(suffix)
        if durable not in folders:
            folders[durable] = _folder(durable=durable)
        servers[key] = _KINDS[name](folders[durable] / key, durable=durable)
    server = servers[key]
    if verb == "start":
        server.start()
    elif verb == "stop":
        server.stop()
    else:
        server.kill()
    return server.url


def _folder(*, durable: bool) -> Path:
    """A folder that the servers' own users can reach, which a private TMPDIR may not be.

    The throw-away servers live in memory where there is enough: a database that takes 15 ms to
    make there takes 200 ms on a disk.
    """
    memory = Path("/dev/shm")
    places: list[str | None] = [None, "/tmp", "/var/tmp"]
    if not durable and memory.is_dir() and shutil.disk_usage(memory).free > _ENOUGH_MEMORY:
        places.insert(0, str(memory))
    for place in places:
        try:
            folder = Path(tempfile.mkdtemp(prefix="deerstore-servers-", dir=place))
        except OSError:
            continue
        folder.chmod(0o755)
        if os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in folder.parents):
            return folder
        folder.rmdir()
    raise ServerError("no temporary folder that an unprivileged user can reach: set TMPDIR to one")
