"""The words of errors: which query failed, where it is written and why, but never a value."""

from __future__ import annotations

from deerstore.errors import ConnectionLostError, QueryExecutionError, RetryableError
from deerstore.queries import CompiledQuery

__all__ = [
    "CHECK_VIOLATION",
    "FOREIGN_KEY_VIOLATION",
    "NOT_NULL_VIOLATION",
    "QUERY_CANCELED",
    "UNIQUE_VIOLATION",
    "execution_error",
    "lost_error",
    "retryable_error",
    "timeout_error",
    "unreachable_error",
]

# Broken constraints carry these SQLSTATEs on every engine, so that a caller can tell them apart
# in one way; the engine's own code is beside them.
UNIQUE_VIOLATION = "23505"
FOREIGN_KEY_VIOLATION = "23503"
NOT_NULL_VIOLATION = "23502"
CHECK_VIOLATION = "23514"
QUERY_CANCELED = "57014"

_REASONS = {
    UNIQUE_VIOLATION: "a row with this key exists already",
    FOREIGN_KEY_VIOLATION: "a foreign key refers to no row, or is still referred to",
    NOT_NULL_VIOLATION: "a column that must not be NULL would be",
    CHECK_VIOLATION: "a check constraint is not met",
}


def _where(query: CompiledQuery | None) -> str:
    return f"{query.name} ({query.source})" if query is not None else "a session command"


def execution_error(
    query: CompiledQuery | None,
    reason: str,
    *,
    sqlstate: str | None = None,
    engine_code: int | str | None = None,
) -> QueryExecutionError:
    """The engine refused a statement. ``reason`` must not repeat a value."""
    if sqlstate in _REASONS:
        words = _REASONS[sqlstate]
        reason = f"{words} ({reason})" if reason else words
    codes = [f"SQLSTATE {sqlstate}"] if sqlstate else []
    codes += [f"engine code {engine_code}"] if engine_code not in (None, sqlstate) else []
    message = f"{_where(query)} failed: {reason}"
    if codes:
        message += f" [{', '.join(codes)}]"
    names = tuple(parameter.name for parameter in query.params) if query is not None else ()
    if names:
        message += f" [parameters: {', '.join(names)}]"
    return QueryExecutionError(
        message,
        query=query.name if query is not None else None,
        file=query.source.file if query is not None else None,
        line=query.source.line if query is not None else None,
        sqlstate=sqlstate,
        engine_code=engine_code,
        parameters=names,
    )


def timeout_error(query: CompiledQuery | None, seconds: float | None) -> QueryExecutionError:
    """A statement ran into ``command_timeout`` and was stopped."""
    return execution_error(
        query,
        f"it took longer than command_timeout={seconds:g} s and was stopped",
        sqlstate=QUERY_CANCELED,
    )


def retryable_error(query: CompiledQuery | None, reason: str) -> RetryableError:
    """The engine gave up one of several competitors."""
    return RetryableError(f"{_where(query)} was given up by the engine: {reason}")


def unreachable_error(place: str, error: Exception) -> ConnectionLostError:
    """No connection can be made. ``place`` must not hold a password."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    kind = type(error).__name__ if code is None else f"{type(error).__name__} {code}"
    return ConnectionLostError(f"{place} cannot be reached ({kind})")


def lost_error(query: CompiledQuery | None, reason: str) -> ConnectionLostError:
    """The connection went away under a statement."""
    return ConnectionLostError(
        f"the connection was lost during {_where(query)}: {reason}; "
        "whether the statement ran is not known"
    )
