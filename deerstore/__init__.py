"""The fact layer of an agent gateway: what can be resumed, queried and audited.

    async with deerstore.open("sqlite:///data/deerflow.db") as persistence:
        async with persistence.transaction() as session:
            runs = build_run_repository(session)
            await runs.create_run(RunCreate(run_id="r1", thread_id="t1"))

Importing this package loads no driver and no LangGraph: a name is looked up when it is first used,
and an engine's packages load when that engine is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deerstore.errors import (
    ActiveRunConflictError,
    AlreadyExistsError,
    ConcurrentSessionUseError,
    ConfigError,
    ConnectionLostError,
    DeerstoreError,
    DuplicateIdError,
    EmailAlreadyRegisteredError,
    IdempotencyConflictError,
    InvalidMetadataFilterError,
    InvalidValueError,
    MissingExtraError,
    NotFoundError,
    OAuthIdentityTakenError,
    PoolTimeoutError,
    QueryExecutionError,
    QueryFileError,
    RetryableError,
    SchemaDriftError,
    SchemaError,
    SchemaTooNewError,
    UserNotFoundError,
)

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.persistence.factory import open_persistence as open  # noqa: A004
    from deerstore.queries import load_queries

__version__ = "0.1.0"

__all__ = [
    "ActiveRunConflictError",
    "AlreadyExistsError",
    "ConcurrentSessionUseError",
    "ConfigError",
    "ConnectionLostError",
    "DeerstoreError",
    "DuplicateIdError",
    "EmailAlreadyRegisteredError",
    "IdempotencyConflictError",
    "InvalidMetadataFilterError",
    "InvalidValueError",
    "MissingExtraError",
    "NotFoundError",
    "OAuthIdentityTakenError",
    "PoolTimeoutError",
    "QueryExecutionError",
    "QueryFileError",
    "RetryableError",
    "SchemaDriftError",
    "SchemaError",
    "SchemaTooNewError",
    "StorageConfig",
    "UserNotFoundError",
    "__version__",
    "load_queries",
    "open",
]

_LATE = {
    "StorageConfig": ("deerstore.config", "StorageConfig"),
    "load_queries": ("deerstore.queries", "load_queries"),
    "open": ("deerstore.persistence.factory", "open_persistence"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _LATE[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
