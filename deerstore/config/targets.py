"""Each driver's own form of one :class:`~deerstore.config.url.DatabaseURL`.

Seven consumers connect to the same place: asyncpg, aiomysql or asyncmy and sqlite3 for the
application tables, psycopg and the same MySQL driver for LangGraph, yoyo (over psycopg, PyMySQL
and sqlite3) for the migrations. The forms are derived here and nowhere else, so that a password,
a schema or a certificate means the same to all of them.

Every form asks the server for UTC, READ COMMITTED and UTF-8, whatever the server's defaults are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from deerstore.config.url import DEFAULT_PORTS, DatabaseURL
from deerstore.errors import ConfigError

if TYPE_CHECKING:
    import ssl

__all__ = ["MYSQL_SESSION", "POSTGRES_SESSION", "ConnectionTargets"]

POSTGRES_SESSION: Mapping[str, str] = {
    "TimeZone": "UTC",
    "default_transaction_isolation": "read committed",
}
"""Settings of every PostgreSQL connection. Behind PgBouncer only ``TimeZone`` can be asked for."""

MYSQL_SESSION = (
    "SET SESSION time_zone = '+00:00', "
    "sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    # MariaDB knows only the first name before 11.1, MySQL 8 only the second.
    "/*M! tx_isolation *//*!80000 transaction_isolation */ = 'READ-COMMITTED'"
)
"""The statement that gives a MySQL or MariaDB session its settings; needs no privilege."""

# Files and versions of TLS: asyncpg takes them in a DSN only, libpq as keywords.
_POSTGRES_TLS_FILES = (
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)
_LIBPQ_ONLY = (
    "channel_binding",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)


@dataclass(frozen=True, slots=True)
class ConnectionTargets:
    """The forms of one database for its drivers. Made by ``StorageConfig.targets``.

    ``connect_timeout`` is in seconds and counts per host, 0 waits for ever; ``schema`` is the
    PostgreSQL schema or ``""``; ``pgbouncer`` leaves out what a pooler in transaction mode refuses.
    """

    url: DatabaseURL
    connect_timeout: float = 10.0
    schema: str = ""
    pgbouncer: bool = False
    application_name: str = "deerstore"

    # -- SQLite ----------------------------------------------------------------------------------

    def sqlite_path(self) -> str:
        """The absolute path of the database file."""
        self._only("sqlite")
        return self._database

    # -- PostgreSQL ------------------------------------------------------------------------------

    def asyncpg_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for :func:`asyncpg.connect`."""
        self._only("postgres")
        options = self.url.options
        settings = {"application_name": options.get("application_name", self.application_name)}
        if self.pgbouncer:
            settings["TimeZone"] = POSTGRES_SESSION["TimeZone"]
        else:
            settings |= POSTGRES_SESSION
            if "options" in options:
                settings["options"] = options["options"]
            if self.schema:
                settings["search_path"] = _quote_identifier(self.schema)
        kwargs: dict[str, Any] = {
            "host": [host for host, _ in self.hosts()],
            "port": [port for _, port in self.hosts()],
            "user": self.url.username,
            "password": self.url.password,
            "database": self._database,
            # asyncpg takes 0 for "at once" and has no "for ever"; a year is long enough.
            "timeout": self.connect_timeout or 31_536_000,
            "server_settings": settings,
        }
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        if "target_session_attrs" in options:
            kwargs["target_session_attrs"] = options["target_session_attrs"]
        if "passfile" in options:
            kwargs["passfile"] = options["passfile"]
        if "sslmode" in options:
            kwargs["ssl"] = options["sslmode"]
        files = {name: options[name] for name in _POSTGRES_TLS_FILES if name in options}
        if files:
            kwargs["dsn"] = f"postgresql://?{urlencode(files, quote_via=quote)}"
        if self.pgbouncer:
            kwargs["statement_cache_size"] = 0
        return kwargs

    def psycopg_conninfo(self) -> str:
        """A libpq connection string for psycopg."""
        return " ".join(
            f"{name}='{_quote_conninfo(value)}'" for name, value in self._libpq().items()
        )

    def _libpq(self) -> dict[str, str]:
        self._only("postgres")
        options = self.url.options
        words = {
            "host": ",".join(host for host, _ in self.hosts()),
            "port": ",".join(str(port) for _, port in self.hosts()),
            "user": self.url.username,
            "password": self.url.password,
            "dbname": self._database,
            # libpq counts whole seconds.
            "connect_timeout": str(math.ceil(self.connect_timeout)),
            "client_encoding": "UTF8",
            "application_name": options.get("application_name", self.application_name),
        }
        params = {name: value for name, value in words.items() if value is not None}
        passed = ("sslmode", "target_session_attrs", "passfile", *_POSTGRES_TLS_FILES, *_LIBPQ_ONLY)
        params |= {name: options[name] for name in passed if name in options}
        if not self.pgbouncer:
            session = dict(POSTGRES_SESSION)
            if self.schema:
                session["search_path"] = _quote_identifier(self.schema)
            given = [options["options"]] if "options" in options else []
            params["options"] = " ".join(
                # The server splits at spaces and unescapes backslashes.
                [*given, *(f"-c {name}={_quote_option(value)}" for name, value in session.items())]
            )
        return params

    # -- MySQL and MariaDB -----------------------------------------------------------------------

    def aiomysql_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for :func:`aiomysql.connect`; :func:`asyncmy.connect` takes them too.

        They hold what names the place, the user and TLS, the character set and ``init_command``;
        autocommit and client flags belong to the caller.
        """
        kwargs = self._mysql()
        context = self._mysql_tls()
        if context is not None:
            kwargs["ssl"] = context
        # aiomysql waits for ever with None; asyncmy wants a positive number.
        kwargs["connect_timeout"] = self.connect_timeout or 31_536_000
        return kwargs

    def pymysql_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for :func:`pymysql.connect`."""
        kwargs = self.aiomysql_kwargs()
        kwargs["database"] = kwargs.pop("db")
        if self.url.sslmode == "disable":
            kwargs["ssl_disabled"] = True
        return kwargs

    def _mysql(self) -> dict[str, Any]:
        self._only("mysql")
        host, port = self.hosts()[0]
        place: dict[str, Any] = (
            {"unix_socket": host} if host.startswith("/") else {"host": host, "port": port}
        )
        return {
            **place,
            "user": self.url.username,
            # All three drivers encode a password as latin-1, while the server hashed its UTF-8
            # form; a string of the UTF-8 bytes as latin-1 characters passes through unharmed.
            "password": (self.url.password or "").encode().decode("latin-1"),
            "db": self._database,
            "charset": "utf8mb4",
            "program_name": self.url.options.get("application_name", self.application_name),
            "init_command": MYSQL_SESSION,
        }

    def _mysql_tls(self) -> ssl.SSLContext | None:
        options = self.url.options
        root, cert = options.get("sslrootcert"), options.get("sslcert")
        mode = options.get("sslmode") or ("verify-ca" if root else "require" if cert else "disable")
        if mode in ("disable", "allow", "prefer"):
            # The drivers cannot ask for "TLS if there is any".
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=root)
            # Certificates that the server makes for itself are not strictly X.509.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.check_hostname = mode == "verify-full"
            if mode == "require" and not root:
                context.verify_mode = ssl.CERT_NONE
            if cert:
                context.load_cert_chain(cert, keyfile=options.get("sslkey"))
        except OSError as error:
            raise ConfigError(f"a TLS file of database_url cannot be used: {error}") from error
        return context

    # -- yoyo ------------------------------------------------------------------------------------

    def yoyo_url(self) -> str:
        """The URL that yoyo-migrations reads: ``sqlite://``, ``mysql://``, ``postgresql+psycopg://``.

        yoyo decodes the user, the password and the query but neither host nor database, and
        lower-cases the host: these travel in the query where the driver lets them.
        """
        if self.url.engine == "sqlite":
            # yoyo puts the path into an SQLite URI, which decodes it.
            return f"sqlite:///{quote(self._database)}"
        if self.url.engine == "postgres":
            params = self._libpq()
            userinfo = _userinfo(params.pop("user", None), params.pop("password", None))
            return f"postgresql+psycopg://{userinfo}/?{urlencode(params, quote_via=quote)}"
        mysql = self._mysql()
        arguments: dict[str, str] = {
            name: mysql[name]
            for name in ("host", "unix_socket", "charset", "program_name", "init_command")
            if name in mysql
        }
        arguments |= self._yoyo_mysql_tls()
        userinfo = _userinfo(mysql["user"], mysql["password"])
        port = f":{mysql['port']}" if "port" in mysql else ""
        database = mysql["db"]
        if set(database) & set("?#%\t\r\n"):
            # yoyo would cut or keep these undecoded; PyMySQL prefers the query's spelling.
            arguments["database"] = database
        query = urlencode(arguments, quote_via=quote)
        return f"mysql://{userinfo}{port}/{quote(database, safe=' ')}?{query}"

    def _yoyo_mysql_tls(self) -> dict[str, str]:
        # yoyo hands the query to PyMySQL as strings; these names take strings.
        options = self.url.options
        mode = options.get("sslmode")
        if mode == "disable":
            return {"ssl_disabled": "1"}
        context = self._mysql_tls()
        if context is None:
            return {}
        arguments = {"ssl_verify_cert": "true" if context.verify_mode else "false"}
        if mode == "verify-full":
            arguments["ssl_verify_identity"] = "true"
        for name, option in (
            ("ssl_ca", "sslrootcert"),
            ("ssl_cert", "sslcert"),
            ("ssl_key", "sslkey"),
        ):
            if option in options:
                arguments[name] = options[option]
        return arguments

    # --------------------------------------------------------------------------------------------

    @property
    def _database(self) -> str:
        if self.url.database is None:
            raise ConfigError("the URL names no database")
        return self.url.database

    def hosts(self) -> list[tuple[str, int]]:
        """The hosts with their ports, in the order in which they are tried."""
        default = DEFAULT_PORTS[self.url.engine]
        return [(host, port or default) for host, port in self.url.hosts or (("localhost", None),)]

    def _only(self, engine: str) -> None:
        if self.url.engine != engine:
            raise ConfigError(f"the configured driver is {self.url.engine}, not {engine}")


def _userinfo(user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return ""
    secret = f":{quote(password, safe='')}" if password is not None else ""
    return f"{quote(user or '', safe='')}{secret}@"


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_conninfo(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _quote_option(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
