"""A private MariaDB whose defaults are all other than what deerstore wants."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import quote

from tests.servers.process import PASSWORD, USER, Server, accepts

_SETTINGS = {
    "bind-address": "127.0.0.1",
    "character-set-server": "latin1",
    "collation-server": "latin1_swedish_ci",
    "default-time-zone": "+05:30",
    "transaction-isolation": "REPEATABLE-READ",
    "sql-mode": "",
    "max-connections": "300",
    "innodb-buffer-pool-size": "128M",
    "innodb-log-file-size": "64M",
}
_FAST = {
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-doublewrite": "0",
    "innodb-flush-method": "nosync",
    "sync-frm": "0",
}


class MariaDB(Server):
    """MariaDB speaking latin1, half an hour off, lax about values, REPEATABLE READ."""

    package = "mariadb-server"
    account = "mysql"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        """The administrator's URL."""
        return f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _first_statements(self) -> Path:
        return self.folder / "first.sql"

    def program(self) -> str:
        """Where `mariadbd` is."""
        return self.find("mariadbd", "/usr/sbin", "/usr/local/sbin")

    def prepare(self) -> None:
        """Run mariadb-install-db and leave the administrator's account for the first start."""
        self._data.mkdir(mode=0o700)
        self.own(self._data)
        self.run(
            [
                self.find("mariadb-install-db", "/usr/bin", "/usr/local/bin"),
                "--no-defaults",
                f"--datadir={self._data}",
                f"--tmpdir={self.folder}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        )
        self._first_statements.write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        self.own(self._first_statements)

    def command(self) -> list[str]:
        """`mariadbd` in the foreground."""
        settings = {
            **_SETTINGS,
            **({} if self.durable else _FAST),
            "datadir": str(self._data),
            "port": str(self.port),
            # A socket's path may have 107 bytes: a relative one is short wherever the folder is.
            "socket": "my.sock",
            "pid-file": str(self.folder / "my.pid"),
            # A server that starts removes what it takes for its own leftovers in the shared one.
            "tmpdir": str(self.folder),
            "init-file": str(self._first_statements),
        }
        options = [f"--{key}={value}" for key, value in settings.items()]
        return [
            self.program(),
            "--no-defaults",
            "--skip-log-bin",
            "--skip-name-resolve",
            *options,
        ]

    def answers(self) -> bool:
        """The port opens after recovery and after the first statements."""
        return accepts(self.port)
