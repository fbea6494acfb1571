"""PostgreSQL over asyncpg."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from deerstore.database import codecs
from deerstore.database.engine import (
    Connection,
    Deadline,
    Engine,
    Result,
    Scope,
    Verdict,
    lock_patience,
)
from deerstore.database.failures import (
    execution_error,
    lost_error,
    retryable_error,
    unreachable_error,
)
from deerstore.database.undeclared import aware
from deerstore.errors import ConfigError
from deerstore.queries import Codec, CompiledQuery, CompiledStep

if TYPE_CHECKING:
    from deerstore.config import StorageConfig

__all__ = ["PostgresConnection", "PostgresEngine"]

T = TypeVar("T")

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
_GUARD = "deerstore_guard"

_TRY_AGAIN = {"40001": "serialization failure", "40P01": "deadlock"}
_LOCK_NOT_AVAILABLE = "55P03"
_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
# Syntax errors and unknown names: the server speaks of the statement, never of its parameters.
_SPEAKABLE = "42"


class PostgresConnection(Connection):
    """One asyncpg connection."""

    def __init__(self, raw: asyncpg.Connection, seconds: float | None) -> None:
        self.deadline = Deadline(seconds)
        self._raw = raw
        self._guard = False
        """Whether the savepoint of the last guarded statement is still set."""

    @property
    def closed(self) -> bool:
        return bool(self._raw.is_closed())

    @property
    def in_transaction(self) -> bool:
        return not self._raw.is_closed() and bool(self._raw.is_in_transaction())

    async def run(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, *, rows: bool
    ) -> Result:
        steps = query.steps
        if len(steps) == 1 and not steps[0].each:
            if not scope.inside:
                return await self._step(steps[0], bound[0], rows)
            return await self._inside(scope, lambda: self._step(steps[0], bound[0], rows))
        if not scope.inside:
            return await self._alone(lambda: self._steps(query, bound, rows))
        return await self._inside(scope, lambda: self._steps(query, bound, rows))

    async def run_many(
        self, query: CompiledQuery, bound: Sequence[Sequence[Any]], scope: Scope
    ) -> int:
        step = query.steps[0]
        plain = len(query.steps) == 1 and not step.each

        async def one_by_one() -> int:
            count = 0
            for args in bound:
                count += (await self._steps(query, args, rows=False)).count
            return count

        async def pipelined() -> int:
            await self._raw.executemany(step.sql, [args[0] for args in bound])
            return len(bound)

        # The driver's executemany takes few trips and is atomic, but does not count.
        if plain and query.cardinality == "exec":
            return await (self._inside(scope, pipelined) if scope.inside else pipelined())
        return await (self._inside(scope, one_by_one) if scope.inside else self._alone(one_by_one))

    async def stream(
        self, query: CompiledQuery, bound: Sequence[Any], scope: Scope, batch: int
    ) -> AsyncGenerator[Result, None]:
        own = not scope.inside
        if own:
            await self._raw.execute(_BEGIN_READING)
        else:
            await self._open(scope)
        # Not the driver's cursor, whose named statement PgBouncer would leave behind on a server
        # connection of somebody else. The name tells statements apart, since the driver remembers
        # what a FETCH of that name gives.
        sql = query.steps[0].sql
        name = f"deerstore_{blake2s(sql.encode(), digest_size=8).hexdigest()}"
        try:
            await self._raw.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}", *bound[0])
            while rows := await self._raw.fetch(f"FETCH FORWARD {batch:d} FROM {name}"):
                yield Result(rows, len(rows), tuple(rows[0].keys()))
                if len(rows) < batch:
                    break
        except GeneratorExit:
            await (self.rollback() if own else self._raw.execute(f"CLOSE {name}"))
            raise
        except Exception:
            if not own:
                await self._recover(scope)
            elif self.in_transaction:
                await self.rollback()
            raise
        await (self.rollback() if own else self._raw.execute(f"CLOSE {name}"))

    async def begin(self, savepoints: Sequence[str]) -> None:
        await self._open(Scope(begin=True, inside=True, savepoints=tuple(savepoints)))

    async def commit(self) -> None:
        self._guard = False
        await self._raw.execute("COMMIT")

    async def rollback(self) -> None:
        self._guard = False
        await self._raw.execute("ROLLBACK")

    async def release(self, savepoint: str) -> None:
        self._guard = False
        await self._raw.execute(f"RELEASE SAVEPOINT {savepoint}")

    async def rollback_to(self, savepoint: str) -> None:
        self._guard = False
        await self._raw.execute(f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}")

    async def abandon(self) -> None:
        # The driver has asked the server to cancel, and lets no other command pass before the
        # server has answered.
        if not self.closed:
            await self.rollback()

    async def check(self) -> None:
        await self._raw.execute("SELECT 1")

    async def close(self) -> None:
        self.deadline.close()
        await self._raw.close()

    def terminate(self) -> None:
        self.deadline.close()
        self._raw.terminate()

    # --------------------------------------------------------------------------------------------

    async def _open(self, scope: Scope) -> None:
        """The transaction commands that a call needs before its statement, in one trip."""
        commands = [_BEGIN] if scope.begin else []
        if self._guard and (scope.savepoints or scope.guarded):
            commands.append(f"RELEASE SAVEPOINT {_GUARD}")
            self._guard = False
        commands += [f"SAVEPOINT {savepoint}" for savepoint in scope.savepoints]
        if scope.guarded:
            commands.append(f"SAVEPOINT {_GUARD}")
        if commands:
            await self._raw.execute("; ".join(commands))
        self._guard = self._guard or scope.guarded

    async def _recover(self, scope: Scope) -> None:
        """After a failed statement: the transaction is as it was before it."""
        if scope.guarded and self.in_transaction:
            await self._raw.execute(f"ROLLBACK TO SAVEPOINT {_GUARD}")

    async def _inside(self, scope: Scope, work: Callable[[], Awaitable[T]]) -> T:
        await self._open(scope)
        try:
            return await work()
        except asyncpg.InvalidCachedStatementError:
            # A table changed its shape under a prepared statement: prepare anew, once.
            if not scope.guarded:
                raise
            await self._recover(scope)
            return await work()
        except Exception:
            await self._recover(scope)
            raise

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._raw.execute(_BEGIN)
        try:
            result = await work()
        except Exception:
            if not self.closed:
                await self.rollback()
            raise
        await self.commit()
        return result

    async def _steps(self, query: CompiledQuery, bound: Sequence[Any], rows: bool) -> Result:
        found: dict[str, Any] = {}
        result = Result((), 0, None)
        for number, step in enumerate(query.steps):
            args = step.fill(bound[number], found)
            if step.each:
                if args:
                    await self._raw.executemany(step.sql, args)
                outcome = Result((), len(args), None)
            else:
                outcome = await self._step(step, args, rows or bool(step.returns))
                if step.returns and outcome.rows:
                    found.update(zip(step.returns, outcome.rows[0], strict=False))
            if number == query.result_step:
                result = outcome
        return result

    async def _step(self, step: CompiledStep, args: Sequence[Any], rows: bool) -> Result:
        if rows:
            fetched = await self._raw.fetch(step.sql, *args)
            return Result(fetched, len(fetched), tuple(fetched[0].keys()) if fetched else ())
        status = await self._raw.execute(step.sql, *args)
        # "UPDATE 3", "INSERT 0 1"; other commands end with no number.
        number = status.rpartition(" ")[2]
        return Result((), int(number) if number.isdigit() else 0, None)


class PostgresEngine(Engine):
    """A PostgreSQL server, direct or behind PgBouncer."""

    name = "postgres"

    def __init__(self, config: StorageConfig) -> None:
        self._config = config
        self._kwargs = config.targets.asyncpg_kwargs()
        if not config.pgbouncer:
            # Every statement is prepared once per connection: by default the driver keeps a
            # hundred of them, no long ones, and forgets them after five minutes.
            self._kwargs |= {
                "statement_cache_size": 2_000,
                "max_cached_statement_lifetime": 0,
                "max_cacheable_statement_size": 0,
            }
            # Behind PgBouncer the setting would stick to a server connection of somebody else.
            milliseconds = max(1, round(lock_patience(config) * 1000))
            self._kwargs["server_settings"]["lock_timeout"] = str(milliseconds)
        self.codec = Codec(
            engine="postgres",
            encoders={"json": codecs.encode_json},
            decoders={
                "timestamp": codecs.stored_timestamp,
                "float": codecs.stored_float,
                "json": codecs.stored_json,
            },
            shortcuts={
                "timestamp": ("{value} if {value}.tzinfo is {extra} else {decode}({value})", UTC),
            },
        )

    async def connect(self) -> PostgresConnection:
        try:
            raw = await asyncpg.connect(**self._kwargs)
            # The sum of a bigint is numeric.
            await raw.set_type_codec(
                "numeric", schema="pg_catalog", encoder=str, decoder=codecs.decimal, format="text"
            )
        except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as e:
            raise ConfigError(
                f"{self._config.location} refuses the login: check username and password ({e})"
            ) from e
        except asyncpg.InvalidCatalogNameError as error:
            raise ConfigError(
                f"{self._config.location}: the database does not exist; create it with: "
                f"CREATE DATABASE \"{self._config.db_name}\" ENCODING 'UTF8'"
            ) from error
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise unreachable_error(self._config.location, error) from error
        return PostgresConnection(raw, self._config.command_timeout)

    def normalise(self, result: Result) -> list[tuple[Any, ...]]:
        return [
            tuple([aware(value) if type(value) is datetime else value for value in row])
            for row in result.rows
        ]

    def judge(self, error: Exception, query: CompiledQuery | None) -> Verdict:
        if isinstance(error, OSError | asyncpg.InternalClientError):
            return Verdict(lost_error(query, type(error).__name__), lost=True)
        if isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError):
            return Verdict(lost_error(query, "the connection is closed"), lost=True)
        if isinstance(error, asyncpg.InvalidCachedStatementError):
            reason = "a table changed its shape; the statement is prepared anew"
            return Verdict(retryable_error(query, reason), repeatable=True)
        state = getattr(error, "sqlstate", None)
        if isinstance(error, asyncpg.PostgresError) and state:
            if state in _TRY_AGAIN:
                return Verdict(retryable_error(query, _TRY_AGAIN[state]), repeatable=True)
            if state == _LOCK_NOT_AVAILABLE:
                return Verdict(retryable_error(query, "a lock was not given in time"))
            if state.startswith(_LOST):
                return Verdict(lost_error(query, type(error).__name__), lost=True)
            return Verdict(execution_error(query, _reason(error), sqlstate=state))
        if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError):
            reason = "a parameter does not fit the type that the statement gives it"
            return Verdict(execution_error(query, reason))
        # Not the driver's: nobody knows what state it left the connection in.
        return Verdict(error, lost=True)


def _reason(error: asyncpg.PostgresError) -> str:
    # The server's own message may repeat a value ("Key (email)=(…) already exists").
    if error.sqlstate[:2] == _SPEAKABLE:
        return str(error.message)
    names = (
        f"{kind} {name}"
        for kind in ("constraint", "table", "column")
        if (name := getattr(error, f"{kind}_name", None))
    )
    return ", ".join([type(error).__name__, *names])
