"""The one configuration that governs all five surfaces.

Every mistake is a :class:`~deerstore.errors.ConfigError` that names the field and never repeats a
value, since the value may be a password.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from deerstore.config.targets import ConnectionTargets
from deerstore.config.url import DEFAULT_PORTS, DatabaseURL, Engine, parse_url, redact_url
from deerstore.errors import ConfigError

__all__ = ["ConfigModel", "SecretURL", "StorageConfig"]

_MEMORY = "'memory' is refused: durable storage has no memory mode; use sqlite with a file"


class SecretURL(SecretStr):
    """A URL that shows itself without its password; ``get_secret_value()`` gives the whole."""

    def _display(self) -> str:
        return redact_url(self._secret_value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._secret_value == other
        return super().__eq__(other)

    __hash__ = SecretStr.__hash__


class ConfigModel(BaseModel):
    """A model whose mistakes are reported as ConfigError, without the values."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    def __init__(self, /, **data: Any) -> None:
        refusal: ConfigError | None = None
        try:
            super().__init__(**data)
        except ValidationError as error:
            refusal = _refusal(type(self), error)
        if refusal is not None:
            # Raised out here so that pydantic's error, which knows the values, is not its context.
            raise refusal

    @classmethod
    def model_validate(cls, obj: Any, **_: Any) -> Any:
        """The model of a mapping, or ``obj`` itself when it is one already."""
        if isinstance(obj, cls):
            return obj
        if not isinstance(obj, Mapping):
            raise ConfigError(f"{cls.__name__} is made from a mapping, not {type(obj).__name__}")
        return cls(**obj)


def _refusal(model: type[BaseModel], error: ValidationError) -> ConfigError:
    problems: list[str] = []
    for item in error.errors(include_input=False, include_url=False, include_context=True):
        path = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            near = difflib.get_close_matches(path, model.model_fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            problems.append(f"{model.__name__} has no field {path!r}{hint}")
            continue
        raised = item.get("ctx", {}).get("error")
        reason = str(raised) if raised is not None else item["msg"]
        problems.append(f"{path}: {reason}" if path else reason)
    return ConfigError("; ".join(problems))


class StorageConfig(ConfigModel):
    """The database that holds all five surfaces, and the limits of talking to it.

    Either ``database_url``, or the parts. The URL wins; a part fills what the URL leaves out, and
    afterwards the parts show what holds. A relative SQLite path is resolved when the
    configuration is made, so that a later change of directory moves nothing.
    """

    model_config = ConfigDict(extra="forbid")

    driver: Literal["sqlite", "postgres", "mysql"] = Field(
        default="sqlite",
        description="The engine: sqlite, postgres (or postgresql), mysql (or mariadb). Follows "
        "database_url when that is given. Default: sqlite.",
    )
    database_url: SecretURL | None = Field(
        default=None,
        description="One URL for everything, such as postgresql://user:password@host:5432/deerflow "
        "or sqlite:///data/deerflow.db. Default: none, the parts are used.",
    )
    sqlite_dir: str = Field(
        default=".deer-flow/data",
        description="Directory of the SQLite file; made when missing. Default: .deer-flow/data.",
    )
    sqlite_file: str = Field(
        default="deerflow.db",
        description="Name of the SQLite file inside sqlite_dir. Default: deerflow.db.",
    )
    username: str | None = Field(
        default=None,
        description="Database user. Default: none, what the driver takes (the system's user).",
    )
    password: SecretStr | None = Field(
        default=None, description="Password of the database user. Default: none."
    )
    host: str = Field(
        default="localhost",
        description="Host name, IPv4 or IPv6 address, or the path of a unix socket (on PostgreSQL "
        "its directory). PostgreSQL: several, separated by commas. Default: localhost.",
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="TCP port. Default: 5432 on postgres, 3306 on mysql, none on sqlite.",
    )
    db_name: str = Field(default="deerflow", description="Name of the database. Default: deerflow.")
    postgres_schema: str = Field(
        default="",
        max_length=63,
        description="PostgreSQL schema that holds every table. Default: empty, the role's own "
        "search_path.",
    )
    pool_size: int = Field(
        default=5,
        ge=1,
        le=10_000,
        description="Connections that the application pool and the LangGraph pool may each open. "
        "Default: 5.",
    )
    connect_timeout: float = Field(
        default=10.0,
        ge=0,
        description="Seconds to wait for a new connection, per host; 0 waits for ever. "
        "Default: 10.",
    )
    acquire_timeout: float = Field(
        default=30.0,
        gt=0,
        description="Seconds to wait for a free connection of the pool. Default: 30.",
    )
    command_timeout: float | None = Field(
        default=30.0,
        gt=0,
        description="Seconds that one statement may take; null for no limit. Default: 30.",
    )
    busy_timeout: float = Field(
        default=30.0,
        ge=0,
        description="Seconds to wait for another writer: SQLite's busy file, a row lock on the "
        "servers. Default: 30.",
    )
    echo_sql: bool = Field(
        default=False,
        description="Log every statement's name and text, without parameters, to the logger "
        "deerstore.sql. Default: off.",
    )
    sqlite_synchronous: Literal["NORMAL", "FULL", "EXTRA"] = Field(
        default="NORMAL",
        description="SQLite's PRAGMA synchronous: NORMAL survives a crash of the process, FULL "
        "also a loss of power. Default: NORMAL.",
    )
    pgbouncer: bool = Field(
        default=False,
        description="PostgreSQL is reached through PgBouncer in transaction mode: no prepared "
        "statements are kept and no session settings are sent. Default: off.",
    )

    _url: DatabaseURL = PrivateAttr()

    def __init__(self, /, **fields: Any) -> None:
        # Written out, since type checkers would otherwise ask for the validated types.
        super().__init__(**fields)

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: Any) -> Any:
        # A field left empty in YAML; where null means something, it stays.
        if not isinstance(data, dict):
            return data
        return {
            name: value
            for name, value in data.items()
            if value is not None or name == "command_timeout" or name not in cls.model_fields
        }

    @field_validator("driver", mode="before")
    @classmethod
    def _known_driver(cls, value: Any) -> Any:
        known = {"sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql"}
        known |= {"postgres": "postgres", "postgresql": "postgres"}
        if not isinstance(value, str):
            raise ValueError("must be a string: sqlite, postgres or mysql")
        if value.lower() == "memory":
            raise ValueError(_MEMORY)
        if value.lower() not in known:
            near = difflib.get_close_matches(value.lower(), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"must be sqlite, postgres or mysql{hint}")
        return known[value.lower()]

    @field_validator("sqlite_synchronous", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("database_url", "username", "password", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("sqlite_dir", mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    @model_validator(mode="after")
    def _resolve(self) -> StorageConfig:
        if self.database_url is None:
            url = self._from_parts()
        else:
            url = self._from_url(self.database_url.get_secret_value())
        if url.engine == "sqlite":
            url = replace(url, database=_sqlite_path(url.database or ""))
        else:
            port = DEFAULT_PORTS[url.engine]
            url = replace(url, hosts=tuple((host, own or port) for host, own in url.hosts))
        self._show(url)
        self._url = url
        if self.postgres_schema and url.engine != "postgres":
            raise ConfigError(f"postgres_schema cannot be used with {url.engine}")
        if self.pgbouncer and (self.postgres_schema or "options" in url.options):
            raise ConfigError(
                "pgbouncer refuses session settings: leave postgres_schema and the URL's options "
                "out and run ALTER ROLE … SET search_path = … instead"
            )
        return self

    def _from_url(self, text: str) -> DatabaseURL:
        url = parse_url(text)
        given = self.model_fields_set
        if url.engine == "sqlite":
            if url.database is None:
                raise ConfigError(f"database_url names no file; {_MEMORY.partition(': ')[2]}")
            return url
        if url.database is None:
            if "db_name" not in given:
                raise ConfigError("database_url names no database")
            url = replace(url, database=self.db_name)
        if url.username is None and self.username is not None:
            url = replace(url, username=self.username)
        if url.password is None and self.password is not None:
            url = replace(url, password=self.password.get_secret_value())
        hosts = url.hosts or _hosts(self.host or "localhost")
        port = self.port if "port" in given else None
        return replace(url, hosts=tuple((host, own or port) for host, own in hosts))

    def _from_parts(self) -> DatabaseURL:
        if self.driver == "sqlite":
            if not self.sqlite_file or not self.sqlite_dir:
                raise ConfigError("sqlite_dir and sqlite_file must not be empty")
            if self.sqlite_file.startswith((":memory:", "file:")):
                raise ConfigError(f"sqlite_file must be a file name; {_MEMORY.partition(': ')[2]}")
            path = os.path.join(self.sqlite_dir, self.sqlite_file)
            return DatabaseURL(engine="sqlite", database=path)
        if not self.db_name:
            raise ConfigError("db_name must not be empty")
        hosts = _hosts(self.host or "localhost")
        if self.driver == "mysql" and len(hosts) > 1:
            raise ConfigError("host names several hosts, which the MySQL drivers cannot do")
        return DatabaseURL(
            engine=self.driver,
            database=self.db_name,
            username=self.username,
            password=self.password.get_secret_value() if self.password else None,
            hosts=tuple((host, self.port) for host, _ in hosts),
        )

    def _show(self, url: DatabaseURL) -> None:
        """Let the fields say what holds, without marking them as given."""
        shown: dict[str, Any] = {"driver": url.engine}
        if url.engine == "sqlite":
            if self.database_url is not None and url.database is not None:
                directory, shown["sqlite_file"] = os.path.split(url.database)
                shown["sqlite_dir"] = directory
        else:
            shown["host"] = ",".join(host for host, _ in url.hosts)
            shown["port"] = url.hosts[0][1]
            shown["db_name"] = url.database
            shown["username"] = url.username
            shown["password"] = SecretStr(url.password) if url.password is not None else None
        self.__dict__.update(shown)

    @property
    def engine(self) -> Engine:
        """The engine's name as the query catalogs use it."""
        return self.driver

    @property
    def mysql_driver(self) -> Literal["aiomysql", "asyncmy"]:
        """The MySQL driver of the application pool, chosen by the URL's scheme."""
        return self._url.mysql_driver

    @property
    def targets(self) -> ConnectionTargets:
        """Each driver's form of this place: ``targets.asyncpg_kwargs()`` and the others."""
        timeout = self._url.connect_timeout
        return ConnectionTargets(
            url=self._url,
            connect_timeout=self.connect_timeout if timeout is None else timeout,
            schema=self.postgres_schema,
            pgbouncer=self.pgbouncer,
        )

    @property
    def location(self) -> str:
        """The place in words for people: a file's path, or driver, host, port and database."""
        if self.driver == "sqlite":
            return self.targets.sqlite_path()
        hosts = (
            host if host.startswith("/") else f"{f'[{host}]' if ':' in host else host}:{port}"
            for host, port in self.targets.hosts()
        )
        return f"{self.driver}://{','.join(hosts)}/{self._url.database}"


def _hosts(text: str) -> tuple[tuple[str, int | None], ...]:
    return tuple((part.strip().strip("[]"), None) for part in text.split(","))


def _sqlite_path(path: str) -> str:
    if os.path.basename(path).startswith(":memory:") or path.startswith("file:"):
        raise ConfigError(f"database_url names no file; {_MEMORY.partition(': ')[2]}")
    if "\0" in path:
        raise ConfigError("the SQLite path holds U+0000")
    return os.path.abspath(os.path.expanduser(path))
