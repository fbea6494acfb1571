"""yoyo's tables: which migrations ran, and yoyo's own lock row.

yoyo's log is kept in yoyo's form, so that ``yoyo list`` shows what deerstore applied and the
other way round. Three things are done differently from yoyo's own command, because a process may
be killed anywhere: the tables are created by statements that may run twice, a migration is
logged and marked in one transaction, and a lock row whose owner is gone is recognised.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from deerstore.errors import SchemaTooNewError
from deerstore.values import utcnow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deerstore.schema.engines import SchemaEngine
    from deerstore.schema.migrations import Migration

__all__ = ["STALE_AFTER", "MigrationLog"]

logger = logging.getLogger("deerstore.schema")

STALE_AFTER = 15.0
"""Seconds that a lock row of a process which does not run on this host is left in peace.

Such a row belongs to a dead process of this host or to a process of another one; the row does
not say which. The time starts again whenever its owner finishes a migration, and while another
session changes the schema.
"""

_POLL = 0.25
_REMINDER = 30.0
_VERSION = 2
"""The form of yoyo's tables that :meth:`MigrationLog.create` makes."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS _yoyo_log (
    id VARCHAR(36) NOT NULL PRIMARY KEY,
    migration_hash VARCHAR(64),
    migration_id VARCHAR(255),
    operation VARCHAR(10),
    username VARCHAR(255),
    hostname VARCHAR(255),
    comment VARCHAR(255),
    created_at_utc {timestamp}
)""",
    """CREATE TABLE IF NOT EXISTS _yoyo_migration (
    migration_hash VARCHAR(64) NOT NULL PRIMARY KEY,
    migration_id VARCHAR(255),
    applied_at_utc {timestamp}
)""",
    """CREATE TABLE IF NOT EXISTS _yoyo_version (
    version INT NOT NULL PRIMARY KEY,
    installed_at_utc {timestamp}
)""",
    """CREATE TABLE IF NOT EXISTS yoyo_lock (
    locked INT NOT NULL DEFAULT 1 PRIMARY KEY,
    ctime {timestamp},
    pid INT NOT NULL
)""",
)


class MigrationLog:
    """yoyo's tables in one database."""

    def __init__(self, engine: SchemaEngine) -> None:
        self._engine = engine

    # -- what ran --------------------------------------------------------------------------------

    def applied(self) -> tuple[str, ...]:
        """The ids of the migrations that the log marks as applied, oldest first; reads only."""
        if "_yoyo_migration" not in self._engine.table_names():
            return ()
        return tuple(sorted(row[0] for row in self._engine.query("schema.applied_migrations")))

    def check_not_newer(self, known: Sequence[Migration]) -> tuple[str, ...]:
        """The applied ids, or :class:`~deerstore.errors.SchemaTooNewError` for an unknown one."""
        applied = self.applied()
        names = {migration.id for migration in known}
        newer = [name for name in applied if name not in names]
        if newer:
            latest = max(names, default="none")
            raise SchemaTooNewError(
                f"the database {self._engine.place()} was made by a newer release of deerstore: "
                f"it has the migrations {', '.join(newer)}, and this release knows none after "
                f"{latest}. Nothing was written; start the newer release."
            )
        return applied

    def create(self) -> None:
        """Make yoyo's tables where they are missing."""
        # TIMESTAMP would end in 2038 on MySQL, and MariaDB would touch it at each update.
        timestamp = "DATETIME" if self._engine.name == "mysql" else "TIMESTAMP"
        present = self._engine.table_names()
        for statement in _TABLES:
            if statement.split()[5] not in present:
                self._engine.run(statement.format(timestamp=timestamp))
        if not self._engine.query("schema.log_versions"):
            self._engine.query("schema.set_log_version", version=_VERSION, installed_at=utcnow())

    def mark(self, migration: Migration) -> None:
        """Log a migration as applied, once."""
        applied_at = utcnow()
        names = {"hash": migration.yoyo.hash, "migration_id": migration.id}

        def write() -> None:
            self._engine.query("schema.mark_migration", **names, applied_at=applied_at)
            self._engine.query(
                "schema.log_migration",
                **names,
                id=str(uuid.uuid4()),
                username=_username(),
                # The fully qualified name may take a slow look-up.
                hostname=socket.gethostname(),
                created_at=applied_at,
            )

        self._engine.in_transaction(write, f"the log entry of {migration.id}")

    # -- yoyo's lock row -------------------------------------------------------------------------

    @contextmanager
    def yoyo_lock(self) -> Iterator[None]:
        """Keep yoyo's own command out, and wait for one that is at work.

        Call it while holding deerstore's lock: then a row that a deerstore process made (its pid
        is negative, which no process has) belongs to a dead one.
        """
        mark = -os.getpid()
        self._take(mark)
        try:
            yield
        finally:
            # The row of a dead connection is recognised at the next start.
            with suppress(self._engine.driver.Error):
                self._engine.query("schema.free_lock_row", pid=mark)

    def forget_dead_setup(self) -> None:
        """Remove the row of a deerstore that died after its last step; yoyo would trip over it."""
        for pid, _ in self._engine.query("schema.lock_row"):
            if pid < 0:
                self._engine.query("schema.free_lock_row", pid=pid)

    def _take(self, mark: int) -> None:
        watch = _Watch()
        while True:
            rows = self._engine.query("schema.lock_row")
            if not rows:
                with suppress(self._engine.driver.IntegrityError):
                    self._engine.query("schema.take_lock_row", pid=mark, ctime=utcnow())
                    return
                continue
            pid, ctime = rows[0]
            busy = self._engine.others_change_schema()
            if pid < 0 or watch.is_stale(pid, ctime, self.applied(), busy=busy):
                logger.warning("removing the yoyo lock row of process %d, which is gone", abs(pid))
                self._engine.query("schema.free_lock_row", pid=pid)
                continue
            self._engine.stopped.wait(_POLL)
            self._engine.check_stopped()


class _Watch:
    """Watches one lock row until its owner finishes or is known to be gone."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since = 0.0
        self._reminded = 0.0

    def is_stale(self, pid: int, ctime: object, applied: tuple[str, ...], *, busy: bool) -> bool:
        now = time.monotonic()
        if busy or (pid, ctime, applied) != self._seen:
            if self._seen is None:
                logger.warning("the yoyo migrator %d holds the lock row; waiting for it", pid)
                self._reminded = now
            self._seen = (pid, ctime, applied)
            self._since = now
        if now - self._reminded > _REMINDER:
            self._reminded = now
            logger.warning(
                "still waiting for the yoyo migrator %d; if it is gone: DELETE FROM yoyo_lock", pid
            )
        return now - self._since > STALE_AFTER and not _is_migrator_here(pid)


def _is_migrator_here(pid: int) -> bool:
    """Whether a process of this host may be the yoyo migrator with this pid."""
    if pid == os.getpid():
        # No yoyo runs inside this process: the number is another container's or an older boot's.
        return False
    if sys.platform == "win32":
        # There is no harmless way to ask.
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It runs, as somebody else.
        pass
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().lower()
    except OSError:
        # Not Linux, or hidden: the pid alone has to do.
        return True
    return b"python" in command or b"yoyo" in command


def _username() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number without a name.
        return str(os.getuid()) if hasattr(os, "getuid") else ""
