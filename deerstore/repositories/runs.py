"""The run repository over any executor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from deerstore.database import Executor
from deerstore.errors import InvalidValueError, NotFoundError, RetryableError
from deerstore.json_text import stored_object
from deerstore.repositories.checks import (
    optional_free_text,
    optional_text,
    owned,
    seconds,
)
from deerstore.repositories.contracts.runs import (
    ACTIVE_STATUSES,
    CANCEL_ACTIONS,
    RUN_STATUSES,
    LeaseRenewal,
    Run,
    RunAdmission,
    RunCreate,
    RunFigures,
    RunFinalization,
    RunRepository,
    TokenUsage,
)
from deerstore.repositories.contracts.types import IdLike, Time
from deerstore.repositories.run_admission import (
    STRATEGIES,
    admit,
    overwrite,
    refuse_creation,
    run_by_key,
)
from deerstore.repositories.run_rows import (
    build_run,
    checked_figures,
    checked_run,
    stored_model_name,
)
from deerstore.repositories.statements import statement
from deerstore.repositories.token_usage import summed
from deerstore.values import (
    as_utc,
    choice,
    free_text,
    identifier,
    identifiers,
    page_bound,
    text,
    utcnow,
)

__all__ = ["SqlRunRepository", "build_run_repository"]

_ATTEMPTS = 3
_OUTCOMES = ("success", "error", "timeout", "interrupted")


def build_run_repository(executor: Executor) -> RunRepository:
    """The runs over ``executor``: a ``Database`` commits each call at once."""
    return SqlRunRepository(executor)


class SqlRunRepository:
    """:class:`RunRepository` in SQL."""

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    # -- storage ---------------------------------------------------------------------------------

    async def create_run(self, run: RunCreate) -> Run:
        new = checked_run(run)
        params = new.params
        for _ in range(_ATTEMPTS):
            if await self._executor.execute(statement("runs.create_run"), **params):
                return new.stored(params["lease_expires_at"])
            await refuse_creation(self._executor, params)
            # What stood in the way is gone again: another try.
        raise RetryableError(f"run {params['run_id']!r} kept meeting others")

    async def put_run(self, run: RunCreate) -> bool:
        new = checked_run(run)
        new.params["lease_seconds"] = None
        return await overwrite(self._executor, new)

    async def get_run(self, run_id: IdLike, *, user_id: IdLike | None = None) -> Run | None:
        params: dict[str, Any] = {"run_id": identifier("run_id", run_id)}
        owner = owned(params, user_id)
        rows = await self._executor.fetch_tuples(statement("runs.get_run", owner=owner), params)
        return build_run(rows[0]) if rows else None

    async def get_run_by_idempotency_key(self, idempotency_key: str) -> Run | None:
        return await run_by_key(self._executor, text("idempotency_key", idempotency_key, 255))

    async def get_runs(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        user_id: IdLike | None = None,
        runs_only: bool = False,
    ) -> dict[str, Run]:
        params: dict[str, Any] = {
            "thread_id": identifier("thread_id", thread_id),
            "run_ids": identifiers("run_ids", run_ids),
        }
        owner = owned(params, user_id)
        if not params["run_ids"]:
            return {}
        found = await self._many(
            "runs.get_runs", params, owner=owner, kind="run" if runs_only else "any"
        )
        return {run.run_id: run for run in found}

    async def list_runs_by_thread(
        self,
        thread_id: IdLike,
        *,
        user_id: IdLike | None = None,
        limit: int = 50,
        offset: int = 0,
        runs_only: bool = False,
    ) -> list[Run]:
        params: dict[str, Any] = {
            "thread_id": identifier("thread_id", thread_id),
            "limit": page_bound("limit", limit),
            "offset": page_bound("offset", offset),
        }
        owner = owned(params, user_id)
        kind = "run" if runs_only else "any"
        return await self._many("runs.list_runs_by_thread", params, owner=owner, kind=kind)

    async def list_runs_before(
        self,
        thread_id: IdLike,
        *,
        before_run_id: IdLike | None = None,
        user_id: IdLike | None = None,
        limit: int = 50,
    ) -> list[Run]:
        if before_run_id is None:
            return await self.list_runs_by_thread(thread_id, user_id=user_id, limit=limit)
        params: dict[str, Any] = {
            "thread_id": identifier("thread_id", thread_id),
            "before_run_id": identifier("before_run_id", before_run_id),
            "limit": page_bound("limit", limit),
        }
        page = await self._many("runs.list_runs_before", params, owner=owned(params, user_id))
        if not page and not await self.get_runs(thread_id, [before_run_id]):
            raise NotFoundError(
                f"thread {params['thread_id']!r} has no run {params['before_run_id']!r}"
            )
        return page

    async def list_pending(
        self, *, before: Time | None = None, runs_only: bool = False
    ) -> list[Run]:
        return await self._inflight(before, pending=True, kind="run" if runs_only else "any")

    async def list_inflight(self, *, before: Time | None = None) -> list[Run]:
        return await self._inflight(before)

    async def list_successful_regenerate_sources(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> set[str]:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("runs.list_regenerate_sources", owner=owned(params, user_id))
        rows = await self._executor.fetch_tuples(query, params)
        sources = (_regenerate_source(stored_object(stored)) for (stored,) in rows)
        return {source for source in sources if source}

    async def list_edit_regenerate_runs(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> list[Run]:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        owner = owned(params, user_id)
        runs = await self._many("runs.list_edit_regenerate_runs", params, owner=owner)
        return [
            run
            for run in runs
            if run.metadata.get("replay_kind") == "edit" and _regenerate_source(run.metadata)
        ]

    async def delete_run(self, run_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        params: dict[str, Any] = {"run_id": identifier("run_id", run_id)}
        query = statement("runs.delete_run", owner=owned(params, user_id))
        return await self._executor.execute(query, **params) > 0

    async def delete_runs_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("runs.delete_runs_by_thread", owner=owned(params, user_id))
        return await self._executor.execute(query, **params)

    async def count_runs(self) -> int:
        return int(await self._executor.fetch_value(statement("runs.count_runs")))

    # -- states and figures ----------------------------------------------------------------------

    async def update_run_status(
        self,
        run_id: IdLike,
        status: str,
        *,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> bool:
        return await self._changed(
            "runs.update_run_status",
            run_id=identifier("run_id", run_id),
            status=choice("status", status, RUN_STATUSES),
            error=optional_free_text("error", error),
            stop_reason=optional_text("stop_reason", stop_reason, 50),
            updated_at=utcnow(),
        )

    async def start_run(self, run_id: IdLike) -> bool:
        return await self._changed(
            "runs.start_run", run_id=identifier("run_id", run_id), updated_at=utcnow()
        )

    async def update_model_name(self, run_id: IdLike, model_name: str | None) -> bool:
        return await self._changed(
            "runs.update_model_name",
            run_id=identifier("run_id", run_id),
            model_name=stored_model_name(model_name),
            updated_at=utcnow(),
        )

    async def update_run_progress(self, run_id: IdLike, **figures: Unpack[RunFigures]) -> bool:
        return await self._changed(
            "runs.update_run_progress",
            run_id=identifier("run_id", run_id),
            updated_at=utcnow(),
            **checked_figures(figures),
        )

    async def update_run_completion(
        self,
        run_id: IdLike,
        *,
        status: str,
        error: str | None = None,
        **figures: Unpack[RunFigures],
    ) -> bool:
        return await self._changed(
            "runs.update_run_completion",
            run_id=identifier("run_id", run_id),
            status=choice("status", status, RUN_STATUSES),
            error=optional_free_text("error", error),
            updated_at=utcnow(),
            **checked_figures(figures),
        )

    async def aggregate_tokens_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None, include_active: bool = False
    ) -> TokenUsage:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement(
            "runs.list_token_usage", owner=owned(params, user_id), active=bool(include_active)
        )
        return summed(await self._executor.fetch_tuples(query, params))

    # -- admission, leases, cancelling -----------------------------------------------------------

    async def admit_run(
        self, run: RunCreate, *, lease_seconds: float | None = None, grace_seconds: float = 10
    ) -> RunAdmission:
        if run.multitask_strategy == "enqueue":
            raise InvalidValueError(
                "multitask_strategy 'enqueue' is not supported; use one of: "
                + ", ".join(STRATEGIES),
                field="multitask_strategy",
            )
        new = checked_run(run)
        choice("multitask_strategy", run.multitask_strategy, STRATEGIES)
        choice("status", run.status, ACTIVE_STATUSES)
        new.params["lease_seconds"] = (
            None if lease_seconds is None else seconds("lease_seconds", lease_seconds)
        )
        return await admit(self._executor, new, seconds("grace_seconds", grace_seconds, least=0))

    async def renew_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_seconds: float
    ) -> LeaseRenewal:
        return await self._renewed(
            run_id, owner_worker_id, seconds("lease_seconds", lease_seconds), None
        )

    async def set_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_expires_at: Time
    ) -> LeaseRenewal:
        return await self._renewed(
            run_id, owner_worker_id, None, as_utc("lease_expires_at", lease_expires_at)
        )

    async def request_cancel(self, run_id: IdLike, *, action: str) -> str | None:
        rows = await self._executor.fetch_tuples(
            statement("runs.request_cancel"),
            {
                "run_id": identifier("run_id", run_id),
                "action": choice("action", action, CANCEL_ACTIONS),
                "updated_at": utcnow(),
            },
        )
        return rows[0][0] if rows else None

    async def finalize_run(
        self,
        run_id: IdLike,
        *,
        status: str,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> RunFinalization:
        run_key = identifier("run_id", run_id)
        finalized = await self._changed(
            "runs.finalize_run",
            run_id=run_key,
            status=choice("status", status, _OUTCOMES),
            error=optional_free_text("error", error),
            stop_reason=optional_text("stop_reason", stop_reason, 50),
            updated_at=utcnow(),
        )
        if finalized:
            return RunFinalization(finalized=True)
        rows = await self._executor.fetch_tuples(
            statement("runs.get_cancel_action"), {"run_id": run_key}
        )
        return RunFinalization(finalized=False, cancel_action=rows[0][0] if rows else None)

    async def claim_expired_run(
        self,
        run_id: IdLike,
        *,
        grace_seconds: float = 10,
        error: str,
        stop_reason: str | None = None,
    ) -> bool:
        return await self._changed(
            "runs.claim_expired_run",
            run_id=identifier("run_id", run_id),
            grace_seconds=seconds("grace_seconds", grace_seconds, least=0),
            error=free_text("error", error),
            stop_reason=optional_text("stop_reason", stop_reason, 50),
            updated_at=utcnow(),
        )

    async def list_expired_inflight(
        self, *, before: Time | None = None, grace_seconds: float = 10
    ) -> list[Run]:
        grace = seconds("grace_seconds", grace_seconds, least=0)
        return await self._inflight(before, grace, expired=True)

    # -- the ways down ---------------------------------------------------------------------------

    async def _many(self, name: str, params: dict[str, Any], **variant: bool | str) -> list[Run]:
        rows = await self._executor.fetch_tuples(statement(name, **variant), params)
        return [build_run(row) for row in rows]

    async def _changed(self, name: str, **params: Any) -> bool:
        return await self._executor.execute(statement(name), **params) > 0

    async def _inflight(
        self, before: Time | None, grace_seconds: float | None = None, **variant: bool | str
    ) -> list[Run]:
        params: dict[str, Any] = {}
        if before is not None:
            params["before"] = as_utc("before", before)
        if grace_seconds is not None:
            params["grace_seconds"] = grace_seconds
        return await self._many("runs.list_inflight", params, before=before is not None, **variant)

    async def _renewed(
        self, run_id: IdLike, owner_worker_id: IdLike, lease_seconds: float | None, end: Any
    ) -> LeaseRenewal:
        rows = await self._executor.fetch_tuples(
            statement("runs.renew_lease"),
            {
                "run_id": identifier("run_id", run_id),
                "owner_worker_id": identifier("owner_worker_id", owner_worker_id, 128),
                "lease_seconds": lease_seconds,
                "lease_expires_at": end,
                "updated_at": utcnow(),
            },
        )
        if not rows:
            return LeaseRenewal(renewed=False)
        return LeaseRenewal(renewed=True, cancel_action=rows[0][0])


def _regenerate_source(metadata: dict[str, Any]) -> str | None:
    source = metadata.get("regenerate_from_run_id")
    return source if isinstance(source, str) and source else None
