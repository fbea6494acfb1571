"""The application's file: the ``storage:`` section, and the older ``database:`` shape."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from deerstore.config.storage import ConfigModel, SecretURL, StorageConfig
from deerstore.errors import ConfigError

__all__ = [
    "AppConfig",
    "DatabaseConfig",
    "load_config",
    "storage_config_from_database_config",
]


class DatabaseConfig(ConfigModel):
    """The older ``database:`` shape.

    Fields that deerstore does not know are ignored, since another program reads the same section.
    """

    model_config = ConfigDict(extra="ignore")

    backend: str = Field(default="sqlite", description="sqlite or postgres. Default: sqlite.")
    sqlite_dir: str = Field(
        default=".deer-flow/data",
        description="Directory of deerflow.db. Default: .deer-flow/data.",
    )
    postgres_url: SecretURL | None = Field(
        default=None, description="PostgreSQL URL; needed for the backend postgres. Default: none."
    )
    echo_sql: bool = Field(default=False, description="Log every statement. Default: off.")
    pool_size: int = Field(default=5, description="Connections per pool. Default: 5.")

    def __init__(self, /, **fields: Any) -> None:
        # Written out, since type checkers would otherwise ask for the validated types.
        super().__init__(**fields)

    @field_validator("postgres_url", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value


def storage_config_from_database_config(obj: Any) -> StorageConfig:
    """The storage configuration of an older ``database:`` section.

    ``obj`` is a :class:`DatabaseConfig`, a mapping, or any object with the attributes ``backend``,
    ``sqlite_dir``, ``postgres_url``, ``echo_sql`` and ``pool_size``; a missing one of the last
    four takes its default. Raises :class:`~deerstore.errors.ConfigError` that says which value is
    missing or unsupported.
    """
    if isinstance(obj, StorageConfig):
        return obj

    def value(name: str, default: Any = None) -> Any:
        found = obj.get(name) if isinstance(obj, Mapping) else getattr(obj, name, None)
        found = getattr(found, "value", found) if name == "backend" else found
        return default if found is None or found == "" else found

    backend = value("backend")
    if backend is None:
        raise ConfigError("database.backend is missing; use sqlite or postgres")
    common: dict[str, Any] = {
        "echo_sql": value("echo_sql", False),
        "pool_size": value("pool_size", 5),
    }
    if backend == "sqlite":
        return StorageConfig(
            driver="sqlite", sqlite_dir=value("sqlite_dir", ".deer-flow/data"), **common
        )
    if backend in ("postgres", "postgresql"):
        url = value("postgres_url")
        if url is None:
            raise ConfigError("database.postgres_url is missing; the backend postgres needs it")
        config = StorageConfig(database_url=url, **common)
        if config.driver != "postgres":
            raise ConfigError(f"database.postgres_url is a URL of {config.driver}, not of postgres")
        return config
    if backend == "memory":
        raise ConfigError(
            "database.backend 'memory' is unsupported: durable storage has no memory mode; "
            "use sqlite or postgres"
        )
    raise ConfigError(
        f"database.backend {str(backend)[:40]!r} is unsupported; use sqlite or postgres"
    )


class AppConfig(ConfigModel):
    """What deerstore reads from an application's configuration file."""

    model_config = ConfigDict(extra="ignore")

    storage: StorageConfig = Field(
        default_factory=StorageConfig, description="The database. Default: SQLite in .deer-flow."
    )
    timezone: str = Field(
        default="UTC",
        description="IANA name of the zone in which the command line shows times. It affects "
        "display only: what is stored and returned is UTC. Default: UTC.",
    )

    def __init__(self, /, **fields: Any) -> None:
        super().__init__(**fields)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (OSError, ValueError, LookupError):
            known = False
        else:
            known = True
        if not known and value != "UTC":
            raise ValueError("is not the name of a time zone; write it like Europe/Berlin")
        return value


def load_config(path: str | os.PathLike[str] | None = None) -> AppConfig:
    """Read the configuration from a YAML file.

    ``path``, else the file that the environment variable ``DEER_FLOW_CONFIG_PATH`` names, else
    ``config.yaml`` in the working directory. The file has a ``storage:`` section, or the older
    ``database:`` one (with both, ``storage:`` holds). In what is read, a string that starts with
    ``$`` is the name of an environment variable. Other sections are left alone.

    Raises :class:`~deerstore.errors.ConfigError` for a missing file, broken YAML, an unset
    variable and every wrong value.
    """
    file, origin = _config_file(path)
    document = _read_yaml(file, origin)
    settings: dict[str, Any] = {}
    if document.get("timezone") is not None:
        settings["timezone"] = _resolve_names(document["timezone"], "timezone")
    if document.get("storage") is not None:
        settings["storage"] = StorageConfig.model_validate(_section(document, "storage"))
    elif document.get("database") is not None:
        settings["storage"] = storage_config_from_database_config(_section(document, "database"))
    else:
        raise ConfigError(f"{file} has neither a storage: nor a database: section")
    return AppConfig(**settings)


def _config_file(path: str | os.PathLike[str] | None) -> tuple[Path, str]:
    if path is not None:
        return Path(path).expanduser(), "the path given"
    named = os.environ.get("DEER_FLOW_CONFIG_PATH")
    if named:
        return Path(named).expanduser(), "named by DEER_FLOW_CONFIG_PATH"
    return Path("config.yaml"), "the default, since DEER_FLOW_CONFIG_PATH is not set"


def _read_yaml(file: Path, origin: str) -> Mapping[str, Any]:
    import yaml

    refusal: str | None = None
    document: Any = None
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        refusal = f"the configuration file {file} ({origin}) does not exist"
    except (OSError, UnicodeDecodeError) as error:
        refusal = f"the configuration file {file} cannot be read: {type(error).__name__}"
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may hold a password.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        refusal = f"the configuration file {file} is not YAML{place}"
    if refusal is not None:
        raise ConfigError(refusal)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"the configuration file {file} must hold a mapping")
    return document


def _section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = document[name]
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise ConfigError(f"the section {name}: must be a mapping of fields")
    return {key: _resolve_names(value, f"{name}.{key}") for key, value in section.items()}


def _resolve_names(value: Any, where: str) -> Any:
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    name = value[1:]
    if name.startswith("{") and name.endswith("}"):
        name = name[1:-1]
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise ConfigError(
            f"{where} starts with $ but is not the name of an environment variable; "
            "put a value that begins with $ into a variable"
        )
    found = os.environ.get(name)
    if found is None:
        raise ConfigError(f"{where} refers to the environment variable {name}, which is not set")
    return found
