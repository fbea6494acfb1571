"""The private servers: as hostile as they claim, and gone when their user is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from tests.fixtures.fix_engines import selected
from tests.servers import Servers
from tests.servers.process import PASSWORD, accepts

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _servers_wanted(request: pytest.FixtureRequest) -> None:
    if selected(request.config) == ("sqlite",):
        pytest.skip("no server was asked for")


@pytest.mark.slow
def test_servers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """SIGKILL to the process that uses the servers stops them and removes their folder."""
    environment = {key: value for key, value in os.environ.items() if "DEERSTORE_TEST" not in key}
    show = (
        "import os, time; print(os.environ['DEERSTORE_TEST_MYSQL_URL'], flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers", "run", "--", sys.executable, "-c", show],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        port = urlsplit(parent.stdout.readline().strip()).port
        assert port
        assert accepts(port)
        os.killpg(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while accepts(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not accepts(port)


def test_postgres_is_hostile(servers: Servers) -> None:
    """Another zone, another isolation, a linguistic order, a password that needs escaping."""
    with psycopg.connect(servers.url("postgres")) as connection:
        row = connection.execute(
            "SELECT current_setting('timezone'), current_setting('transaction_isolation')"
        ).fetchone()
        assert row == ("America/New_York", "repeatable read")
        assert connection.info.password == PASSWORD


def test_mysql_is_hostile(servers: Servers) -> None:
    """Another zone, another character set, no SQL mode, another isolation."""
    port = urlsplit(servers.url("mysql")).port
    assert port
    with (
        pymysql.connect(host="127.0.0.1", port=port, user="deer", password=PASSWORD) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "SELECT @@global.time_zone, @@global.character_set_server, @@global.sql_mode, "
            "@@global.tx_isolation"
        )
        assert cursor.fetchone() == ("+05:30", "latin1", "", "REPEATABLE-READ")
