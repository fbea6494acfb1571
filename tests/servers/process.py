"""What the two servers have in common: a folder, a port, an unprivileged user, a process."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from tests.servers.client import ServerError
from tests.servers.packages import install

#: Both servers get a user and a password that break a URL which is not escaped.
USER = "deer"
PASSWORD = "p@ss/w:rd%#?"

_START_SECONDS = 60
_STOP_SECONDS = 30


class Server(ABC):
    """One private server. `start` and `stop` may be repeated; the data stays between them."""

    #: The Debian package that carries the server.
    package: ClassVar[str]
    #: The account a root user runs it as, when it exists; `nobody` otherwise.
    account: ClassVar[str]
    #: The signal that ends it without waiting for its clients.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.durable = durable
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False

    @property
    @abstractmethod
    def url(self) -> str:
        """The administrator's URL."""

    @abstractmethod
    def program(self) -> str:
        """Where the server is; it is installed when it is missing."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder, once."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes connections by now."""

    def start(self) -> None:
        """Start the server and wait until it answers."""
        if self._process is not None:
            return
        if not self._prepared:
            # Before the folder gets its owner: the package may bring the account along.
            self.program()
            self.folder.mkdir(mode=0o700)
            self.own(self.folder)
            self.prepare()
            self._prepared = True
        with self.log.open("ab") as log:
            self._process = self.spawn(self.command(), stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self.package} did not start:\n{self.log_tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server, its clients' connections included."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the server as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # PostgreSQL's own children end when they miss their postmaster, which may take them as long
        # as an answer: a power cut takes them as well.
        children = _children(process.pid) if number == signal.SIGKILL else []
        process.send_signal(number)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        while any(map(_runs, children)):
            time.sleep(0.005)

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.folder / "server.log"

    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def run(self, command: list[str]) -> None:
        """Run one of the server's tools to its end, as the server's account."""
        process = self.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = process.communicate()[0]
        if process.returncode:
            raise ServerError(f"{command[0]} failed:\n{output.decode(errors='replace')}")

    def spawn(
        self, command: list[str], *, stdout: object, stderr: object
    ) -> subprocess.Popen[bytes]:
        """Start a command as the server's account, in the server's folder."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,  # type: ignore[arg-type]
            stderr=stderr,  # type: ignore[arg-type]
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C", "TZ": "UTC"},
            **self._identity(),
        )

    def own(self, path: Path) -> None:
        """Give a path to the server's account."""
        identity = self._identity()
        if identity:
            os.chown(path, identity["user"], identity["group"])

    def find(self, program: str, *folders: str) -> str:
        """Where a program is; the server's package is installed when it is missing and may be."""
        found = self._look(program, folders)
        if found is None:
            install(self.package)
            found = self._look(program, folders)
        if found is None:
            raise ServerError(f"{program} is missing although {self.package} is installed")
        return found

    @staticmethod
    def _look(program: str, folders: tuple[str, ...]) -> str | None:
        for pattern in folders:
            matches = [path for path in Path("/").glob(pattern.lstrip("/")) if path.is_dir()]
            for place in sorted(matches, key=_version, reverse=True):
                if (place / program).exists():
                    return str(place / program)
        return shutil.which(program)

    def _identity(self) -> dict[str, int | list[int]]:
        """The arguments that drop root's rights, which both servers refuse to run with."""
        if os.geteuid() != 0:
            return {}
        try:
            entry = pwd.getpwnam(self.account)
        except KeyError:
            entry = pwd.getpwnam("nobody")
        groups = [group.gr_gid for group in grp.getgrall() if entry.pw_name in group.gr_mem]
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


def accepts(port: int) -> bool:
    """Whether something listens on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _version(path: Path) -> list[int]:
    """The version numbers in a path, so that 16 sorts above 9."""
    return [int(part) for part in path.parts if part.isdigit()]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
