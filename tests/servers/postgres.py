"""A private PostgreSQL whose defaults are all other than what deerstore wants."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import quote

from tests.servers.process import PASSWORD, USER, Server, accepts

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    "timezone": "America/New_York",
    "log_timezone": "UTC",
    "default_transaction_isolation": "repeatable read",
    "lock_timeout": "0",
    "shared_buffers": "64MB",
}
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres(Server):
    """PostgreSQL in another zone, REPEATABLE READ, sorting text by a language's rules."""

    package = "postgresql"
    account = "postgres"

    @property
    def url(self) -> str:
        """The administrator's URL."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def program(self) -> str:
        """Where `postgres` is."""
        return self._tool("postgres")

    def prepare(self) -> None:
        """Run initdb, with a linguistic collation where this build has ICU."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self.own(password)
        initdb = self._tool("initdb")
        known = subprocess.run(
            [initdb, "--help"], capture_output=True, text=True, check=True
        ).stdout
        icu = ["--locale-provider=icu", "--icu-locale=en-US"] if "--icu-locale" in known else []
        self.run(
            [
                initdb,
                f"--pgdata={self._data}",
                f"--username={USER}",
                f"--pwfile={password}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--no-instructions",
                *icu,
            ]
        )

    def command(self) -> list[str]:
        """`postgres` in the foreground."""
        settings = {
            **_SETTINGS,
            **({} if self.durable else _FAST),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [self.program(), "-D", str(self._data), *options]

    def answers(self) -> bool:
        """Ask pg_isready: the port opens before recovery has ended."""
        if not accepts(self.port):
            return False
        ready = [self._tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def _tool(self, program: str) -> str:
        # Debian keeps the server's own programs out of PATH.
        return self.find(program, "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
