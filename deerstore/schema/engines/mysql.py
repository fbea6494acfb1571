"""MySQL and MariaDB for the schema room, over PyMySQL (the driver that yoyo uses)."""

# ruff: noqa: D102 - what each method means stands in the base class
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pymysql

from deerstore.errors import SchemaError
from deerstore.queries import Codec
from deerstore.schema.engines.base import LOCK_SLICE, SchemaEngine, SetupLock

__all__ = ["MysqlEngine"]

_UNKNOWN_DATABASE = 1049
_NOT_YOURS = 1044
_DENIED = (_NOT_YOURS, 1045, 1227)
_LOCK_CONFLICTS = (1205, 1213)
# 2002-2055 are the client's own codes; 1053, 1077 and 1927 say that the server ends the session.
_DISCONNECTS = (*range(2000, 2056), 1040, 1053, 1077, 1927)


def _naive_time(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None)


class MysqlEngine(SchemaEngine):
    """A PyMySQL connection in autocommit mode."""

    name = "mysql"
    driver = pymysql
    codec = Codec("mysql", encoders={"timestamp": _naive_time})
    begin_statement = "START TRANSACTION"

    def _kwargs(self) -> dict[str, Any]:
        return self.config.targets.pymysql_kwargs()

    @property
    def _database(self) -> str:
        return str(self._kwargs()["database"])

    def _connect(self) -> Any:
        connection = pymysql.connect(**self._kwargs(), autocommit=True)
        try:
            with connection.cursor() as cursor:
                # The default is a day (MariaDB) or a year (MySQL), with every reader queued behind.
                cursor.execute(f"SET SESSION lock_wait_timeout = {LOCK_SLICE}")
                cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_SLICE}")
        except BaseException:
            connection.close()
            raise
        return connection

    def interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            with (
                contextlib.suppress(pymysql.Error),
                contextlib.closing(pymysql.connect(**self._kwargs())) as other,
                other.cursor() as cursor,
            ):
                cursor.execute(f"KILL QUERY {int(connection.thread_id())}")

    def place(self) -> str:
        kwargs = self._kwargs()
        where = kwargs.get("unix_socket") or f"{kwargs.get('host')}:{kwargs.get('port')}"
        return f"{where}/{self._database}"

    # -- the database itself ---------------------------------------------------------------------

    def database_exists(self) -> bool:
        try:
            return self.connection is not None
        except pymysql.Error as error:
            if _code(error) == _UNKNOWN_DATABASE:
                return False
            if _code(error) == _NOT_YOURS:
                # The server does not tell such a user whether there is one.
                raise self._may_not(error, "does not exist or is not open to this user") from error
            raise

    def create_database(self) -> None:
        if self.database_exists():
            return
        try:
            with (
                contextlib.closing(
                    pymysql.connect(**self._kwargs() | {"database": None})
                ) as server,
                server.cursor() as cursor,
            ):
                cursor.execute(self._create_statement())
        except pymysql.Error as error:
            if _code(error) not in _DENIED:
                raise
            raise self._may_not(error, "does not exist and this user may not create it") from error

    def _create_statement(self) -> str:
        return f"CREATE DATABASE IF NOT EXISTS {self._quoted_name()} CHARACTER SET utf8mb4"

    def _quoted_name(self) -> str:
        return "`" + self._database.replace("`", "``") + "`"

    def _may_not(self, error: pymysql.Error, what: str) -> SchemaError:
        user = self._kwargs().get("user")
        return SchemaError(
            f"the database {self._database!r} {what} ({self.message(error)}); run as an "
            f"administrator: {self._create_statement()}; "
            f"GRANT ALL ON {self._quoted_name()}.* TO '{user}'@'%';"
        )

    def lock(self) -> SetupLock:
        return _NamedLock(self._kwargs(), self._database)

    def others_change_schema(self) -> bool:
        return bool(self.query_server("server.others_change_schema")[0][0])

    # -- statements ------------------------------------------------------------------------------

    def _execute(self, sql: str, args: Sequence[Any] | None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            return list(cursor.fetchall()) if cursor.description else []

    def is_lock_conflict(self, error: Exception) -> bool:
        return _code(error) in _LOCK_CONFLICTS

    def message(self, error: BaseException) -> str:
        if len(error.args) == 2:
            return f"{error.args[1]} ({error.args[0]})"
        return str(error)

    def is_disconnect(self, error: BaseException) -> bool:
        return isinstance(error, pymysql.InterfaceError) or _code(error) in _DISCONNECTS


class _NamedLock(SetupLock):
    """``GET_LOCK`` on a connection of its own; the server frees it with the session."""

    def __init__(self, kwargs: dict[str, Any], database: str) -> None:
        self._kwargs = kwargs
        # The name is the whole server's, has at most 64 characters and ignores case.
        self._name = f"deerstore.setup.{hashlib.sha256(database.encode()).hexdigest()[:32]}"
        self._connection: Any = None

    def try_acquire(self) -> bool:
        if self._connection is None:
            self._connection = pymysql.connect(**self._kwargs, autocommit=True)
            with self._connection.cursor() as cursor:
                # An idle lock holder must outlive a short server-side idle limit.
                cursor.execute("SET SESSION wait_timeout = 86400")
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (self._name,))
            row = cursor.fetchone()
        return bool(row and row[0])

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _code(error: BaseException) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0
