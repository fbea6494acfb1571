"""Every exception that deerstore raises, in one tree.

::

    DeerstoreError
    ├── InvalidValueError (ValueError)            a value breaks a rule of its field; before any I/O
    ├── InvalidMetadataFilterError (ValueError)   no key of a metadata filter was usable
    ├── NotFoundError (LookupError)               a row that had to exist does not
    │   └── UserNotFoundError
    ├── AlreadyExistsError (ValueError)           a row that had to be new exists
    │   ├── EmailAlreadyRegisteredError
    │   ├── OAuthIdentityTakenError
    │   └── DuplicateIdError
    ├── ActiveRunConflictError (RuntimeError)     the thread already has an active run
    ├── IdempotencyConflictError (RuntimeError)   the key already made a run
    ├── ConcurrentSessionUseError (RuntimeError)  two coroutines used one session at once
    ├── PoolTimeoutError (TimeoutError)           no connection became free in time
    ├── ConnectionLostError (ConnectionError)     the server or the network went away
    ├── RetryableError (RuntimeError)             deadlock, serialization failure, lock timeout
    ├── SchemaError (RuntimeError)                the schema could not be made, read or changed
    │   ├── SchemaTooNewError
    │   └── SchemaDriftError
    ├── QueryFileError (ValueError)               a .sql file breaks a rule of the registry
    ├── QueryExecutionError (RuntimeError)        the engine refused a statement
    ├── MissingExtraError (ImportError)           an engine's packages are not installed
    └── ConfigError (ValueError)                  the configuration is wrong or incomplete

Each class carries a stable ``code``, which is also the name of its page in ``docs/errors``.
Where a driver raised first, its exception is the ``__cause__``. No message holds a password or
the value of a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

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
    "UserNotFoundError",
]


class DeerstoreError(Exception):
    """Base of all errors that deerstore raises."""

    code: ClassVar[str] = "deerstore"

    def __reduce__(self) -> tuple[Any, ...]:
        # By default a copy, or another process, calls the class with the message alone.
        return (_again, (type(self), self.args), *super().__reduce__()[2:])


def _again(kind: type[DeerstoreError], args: tuple[Any, ...]) -> DeerstoreError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class InvalidValueError(DeerstoreError, ValueError):
    """A value breaks a rule of its field. Raised before any I/O.

    ``field`` names the field or the path inside it (``metadata.tags[2]``); ``index`` is the
    position of the refused item when a batch was given, else ``None``.
    """

    code = "invalid_value"

    def __init__(self, message: str, *, field: str | None = None, index: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.index = index


class InvalidMetadataFilterError(DeerstoreError, ValueError):
    """Every key of a metadata filter was unusable, so that nothing was left to filter by."""

    code = "invalid_metadata_filter"


class NotFoundError(DeerstoreError, LookupError):
    """A row that had to exist does not."""

    code = "not_found"


class UserNotFoundError(NotFoundError):
    """No user has this id."""

    code = "user_not_found"


class AlreadyExistsError(DeerstoreError, ValueError):
    """A row that had to be new exists already."""

    code = "already_exists"


class EmailAlreadyRegisteredError(AlreadyExistsError):
    """Another account has this e-mail address, letter case aside."""

    code = "email_already_registered"


class OAuthIdentityTakenError(AlreadyExistsError):
    """Another account has this OAuth provider and id."""

    code = "oauth_identity_taken"


class DuplicateIdError(AlreadyExistsError):
    """A row with this primary key exists already."""

    code = "duplicate_id"
    sqlstate: ClassVar[str] = "23505"


class ActiveRunConflictError(DeerstoreError, RuntimeError):
    """The thread already has an active run, so another one was not admitted.

    ``reason`` is ``active_run`` (the thread's slot is taken), ``other_worker`` (a live worker
    owns the run that would have been interrupted) or ``reservation`` (the slot belongs to an
    operation that is not a run). Only ``active_run`` carries ``sqlstate = "23505"``: it alone is
    a unique violation in the database.
    """

    code = "active_run_conflict"

    def __init__(self, message: str, *, reason: str = "active_run") -> None:
        super().__init__(message)
        self.reason = reason
        if reason == "active_run":
            self.sqlstate = "23505"


class IdempotencyConflictError(DeerstoreError, RuntimeError):
    """The idempotency key already made a run; ``existing`` is that run."""

    code = "idempotency_conflict"

    def __init__(self, message: str, *, existing: Any) -> None:
        super().__init__(message)
        self.existing = existing


class ConcurrentSessionUseError(DeerstoreError, RuntimeError):
    """Two coroutines used one session at the same time. Give each its own session."""

    code = "concurrent_session_use"


class PoolTimeoutError(DeerstoreError, TimeoutError):
    """No connection became free within ``acquire_timeout``.

    ``waited`` is in seconds; ``size`` is the pool's limit; ``in_use`` counts connections that
    were given out at that moment.
    """

    code = "pool_timeout"

    def __init__(self, message: str, *, waited: float, size: int, in_use: int) -> None:
        super().__init__(message)
        self.waited = waited
        self.size = size
        self.in_use = in_use


class ConnectionLostError(DeerstoreError, ConnectionError):
    """The server or the network went away. Whether the last statement ran is not known."""

    code = "connection_lost"


class RetryableError(DeerstoreError, RuntimeError):
    """The engine gave up one of several competitors: a deadlock, a serialization failure or a
    lock timeout. Nothing of the transaction was kept; running it again may succeed.
    """

    code = "retryable"


class SchemaError(DeerstoreError, RuntimeError):
    """The schema could not be created, read or changed."""

    code = "schema"


class SchemaTooNewError(SchemaError):
    """The database was made by a newer release of deerstore. Nothing was written."""

    code = "schema_too_new"


class SchemaDriftError(SchemaError):
    """The database differs from the schema that this release expects."""

    code = "schema_drift"


class QueryFileError(DeerstoreError, ValueError):
    """A ``.sql`` file breaks a rule of the query registry.

    ``line`` and ``column`` count from 1. ``excerpt`` is the line with a caret under the place.
    """

    code = "query_file"

    def __init__(
        self,
        message: str,
        *,
        file: str,
        line: int = 1,
        column: int = 1,
        excerpt: str = "",
    ) -> None:
        text = f"{file}:{line}:{column}: {message}"
        super().__init__(f"{text}\n{excerpt}" if excerpt else text)
        self.reason = message
        self.file = file
        self.line = line
        self.column = column
        self.excerpt = excerpt


class QueryExecutionError(DeerstoreError, RuntimeError):
    """The engine refused a statement, or its result broke the query's cardinality.

    ``sqlstate`` is the five-character SQLSTATE where the engine gives one; ``engine_code`` is
    the engine's own code (MySQL error number, SQLite result code); ``parameters`` are names.
    """

    code = "query_execution"

    def __init__(
        self,
        message: str,
        *,
        query: str | None = None,
        file: str | None = None,
        line: int | None = None,
        sqlstate: str | None = None,
        engine_code: int | str | None = None,
        parameters: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.query = query
        self.file = file
        self.line = line
        self.sqlstate = sqlstate
        self.engine_code = engine_code
        self.parameters = tuple(parameters)


class MissingExtraError(DeerstoreError, ImportError):
    """The packages of an optional part are not installed; the message names the extra."""

    code = "missing_extra"

    def __init__(self, extra: str, *, package: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'deerstore[{extra}]'",
            name=package,
        )
        self.extra = extra


class ConfigError(DeerstoreError, ValueError):
    """The configuration is wrong or incomplete; the message names the field."""

    code = "config"
