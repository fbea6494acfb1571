"""PostgreSQL for the schema room, over psycopg (the driver that yoyo and LangGraph use)."""

# ruff: noqa: D102 - what each method means stands in the base class
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deerstore.database.catalog import engine_queries
from deerstore.errors import SchemaError
from deerstore.queries import Codec
from deerstore.schema.engines.base import LOCK_SLICE, SchemaEngine, SetupLock

__all__ = ["PostgresEngine"]

# Where to ask whether a database exists, and from where to create it.
_MAINTENANCE_DATABASES = ("postgres", "template1")

# What a role or a database may have set for its clients, and what a migration needs instead.
_SESSION = (
    "TimeZone = 'UTC'",
    "statement_timeout = 0",
    "idle_in_transaction_session_timeout = 0",
    f"lock_timeout = '{LOCK_SLICE}s'",
)


class PostgresEngine(SchemaEngine):
    """A psycopg connection in autocommit mode."""

    name = "postgres"
    driver = psycopg
    codec = Codec("postgres")

    @property
    def _conninfo(self) -> str:
        return self.config.targets.psycopg_conninfo()

    @property
    def _database(self) -> str:
        return str(conninfo_to_dict(self._conninfo).get("dbname", ""))

    def _connect(self) -> psycopg.Connection[Any]:
        # Unnamed statements only: behind PgBouncer a prepared one may meet another server session.
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        try:
            if not self.config.pgbouncer:
                for setting in _SESSION:
                    connection.execute(f"SET {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.cancel_safe(timeout=5)

    def place(self) -> str:
        words = conninfo_to_dict(self._conninfo)
        schema = self.config.postgres_schema
        return f"{words.get('host')}:{words.get('port')}/{self._database}" + (
            f", schema {schema}" if schema else ""
        )

    # -- the database itself ---------------------------------------------------------------------

    def database_exists(self) -> bool:
        try:
            return self.connection is not None
        except psycopg.OperationalError:
            # A refused connection carries no SQLSTATE, and its text is in the server's language:
            # whether the database is what is missing must be asked elsewhere.
            maintenance = self._maintenance_connection()
            if maintenance is None:
                raise
            query = engine_queries("server", self.name)["server.database_exists"]
            compiled = query.compiled(self.codec)
            (args,) = compiled.bind({"name": self._database})
            with maintenance:
                ((found,),) = _rows(maintenance, compiled.steps[0].sql, args)
            if found:
                raise
            return False

    def _maintenance_connection(self) -> psycopg.Connection[Any] | None:
        for name in _MAINTENANCE_DATABASES:
            with contextlib.suppress(psycopg.OperationalError):
                conninfo = make_conninfo(self._conninfo, dbname=name)
                return psycopg.connect(conninfo, autocommit=True)
        return None

    def create_database(self) -> None:
        if not self.database_exists():
            self._create_missing_database()
        self._check_encoding()
        schema = self.config.postgres_schema
        if not schema or self.query_server("server.schema_exists", name=schema)[0][0]:
            return
        statement = sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)).as_string(None)
        try:
            self.run(statement)
        except (errors.DuplicateSchema, errors.UniqueViolation):
            return
        except errors.InsufficientPrivilege as error:
            raise SchemaError(
                f"the schema {schema!r} does not exist in database {self._database!r} and this "
                f"role may not create it; run as its owner: {statement} AUTHORIZATION "
                f"{self._quoted_role()};"
            ) from error

    def _check_encoding(self) -> None:
        encoding = self.connection.info.parameter_status("server_encoding")
        if encoding not in (None, "UTF8"):
            raise SchemaError(
                f"the database {self._database!r} has the encoding {encoding}, which cannot hold "
                "every character; use one that was made with: "
                "CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0;"
            )

    def _create_missing_database(self) -> None:
        connection = self._maintenance_connection()
        if connection is None:
            raise SchemaError(f"the database {self._database!r} does not exist")
        name = sql.Identifier(self._database)
        # template0 takes any encoding; the cluster's own may be one that cannot hold an emoji.
        plain = sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(name)
        with connection:
            try:
                try:
                    connection.execute(plain)
                except errors.InvalidParameterValue:
                    # The cluster's locale belongs to another encoding.
                    connection.execute(plain + sql.SQL(" LC_COLLATE 'C' LC_CTYPE 'C'"))
            except (errors.DuplicateDatabase, errors.UniqueViolation):
                return
            except errors.InsufficientPrivilege as error:
                raise SchemaError(
                    f"the database {self._database!r} does not exist and this role may not create "
                    f"it; run as a superuser: {plain.as_string(None)} OWNER {self._quoted_role()};"
                ) from error

    def _quoted_role(self) -> str:
        role = str(conninfo_to_dict(self._conninfo).get("user", "the_role"))
        return sql.Identifier(role).as_string(None)

    def lock(self) -> SetupLock:
        return _AdvisoryLock(self._conninfo, self.config.postgres_schema)

    def others_change_schema(self) -> bool:
        return bool(self.query_server("server.others_change_schema")[0][0])

    # -- statements ------------------------------------------------------------------------------

    def _execute(self, sql: str, args: Sequence[Any] | None) -> list[tuple[Any, ...]]:
        connection = self.connection
        concurrent = "CONCURRENTLY" in sql.upper()
        if self.config.pgbouncer:
            # A setting must not outlive its transaction in a server session that others share.
            if sql == self.begin_statement:
                connection.execute(sql)
                self._set_locally()
                return []
            if self._in_transaction or concurrent:
                return _rows(connection, sql, args)
            with connection.transaction():
                self._set_locally()
                return _rows(connection, sql, args)
        if not concurrent:
            return _rows(connection, sql, args)
        # A concurrent build waits for every transaction that is older than it; a timeout in
        # between would leave an invalid index behind.
        connection.execute("SET lock_timeout = 0")
        try:
            return _rows(connection, sql, args)
        finally:
            if not connection.closed:
                connection.execute(f"SET lock_timeout = '{LOCK_SLICE}s'")

    def _set_locally(self) -> None:
        for setting in _SESSION:
            self.connection.execute(f"SET LOCAL {setting}")

    def is_lock_conflict(self, error: Exception) -> bool:
        return isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected)

    def message(self, error: BaseException) -> str:
        if not isinstance(error, psycopg.Error) or error.diag.message_primary is None:
            return " ".join(str(error).split())
        diagnosis = error.diag
        parts = [diagnosis.message_primary, diagnosis.message_detail, diagnosis.message_hint]
        return f"{'; '.join(part for part in parts if part)} (SQLSTATE {diagnosis.sqlstate})"

    def is_disconnect(self, error: BaseException) -> bool:
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            return True
        return isinstance(
            error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow
        )


class _AdvisoryLock(SetupLock):
    """An advisory lock held by an open transaction.

    A transaction pins its server session, so the lock also holds behind PgBouncer in transaction
    mode. Under READ COMMITTED an idle transaction keeps no snapshot, so the ``CREATE INDEX
    CONCURRENTLY`` of LangGraph's setup does not wait for it; for the same reason waiting is done
    by asking again, never by a statement that blocks with a snapshot.
    """

    def __init__(self, conninfo: str, schema: str) -> None:
        self._conninfo = conninfo
        digest = hashlib.sha256(f"deerstore.setup.{schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._connection: psycopg.Connection[Any] | None = None

    def try_acquire(self) -> bool:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._conninfo, autocommit=True, prepare_threshold=None
            )
        connection = self._connection
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        # Without a bound value, which would leave a portal open and with it a snapshot.
        row = connection.execute(f"SELECT pg_try_advisory_xact_lock({self._key:d})").fetchone()
        if row is not None and row[0]:
            return True
        connection.execute("ROLLBACK")
        return False

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _rows(
    connection: psycopg.Connection[Any], sql: str, args: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    # The raw cursor takes the server's own placeholders ($1) and leaves every % alone.
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute(sql, args or None)
        return cursor.fetchall() if cursor.description else []
