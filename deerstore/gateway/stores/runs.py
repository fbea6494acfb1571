"""Runs under a gateway's names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from deerstore.errors import IdempotencyConflictError
from deerstore.gateway.context import CONTEXT_USER, ContextUser, resolve_user_id
from deerstore.gateway.stores.adapters import StorageRunRepository
from deerstore.gateway.stores.binding import Bound, SessionFactory
from deerstore.gateway.stores.rows import (
    as_row,
    as_rows,
    as_text,
    as_texts,
    invalid,
    optional_text,
)
from deerstore.repositories import LeaseRenewal, Run, RunCreate, RunFinalization, TokenUsage
from deerstore.repositories.contracts.types import IdLike, Time
from deerstore.values import as_utc

__all__ = ["StorageRunStore"]

User = IdLike | ContextUser | None
Row = dict[str, Any]


class StorageRunStore:
    """Runs: what ran, how it ended, who owns it.

    Rows have the columns of the table, with ``metadata`` and ``kwargs`` for its JSON. Lists are
    of runs; reservations of a thread by another kind of operation show up in
    :meth:`list_inflight` only.
    """

    def __init__(self, session_factory: SessionFactory) -> None:
        self._runs = Bound(StorageRunRepository(session_factory))

    # -- storage ---------------------------------------------------------------------------------

    async def put(
        self,
        run_id: IdLike,
        *,
        thread_id: IdLike,
        assistant_id: IdLike | None = None,
        user_id: User = CONTEXT_USER,
        model_name: Any = None,
        status: str = "pending",
        operation_kind: str = "run",
        multitask_strategy: str = "reject",
        metadata: dict[str, Any] | None = None,
        kwargs: Any = None,
        error: str | None = None,
        stop_reason: str | None = None,
        created_at: Time | None = None,
        follow_up_to_run_id: IdLike | None = None,
        owner_worker_id: IdLike | None = None,
        lease_expires_at: Time | None = None,
        idempotency_key: str | None = None,
    ) -> bool:
        """Store a run, or replace what it was stored with; while it is active it holds the
        thread's slot.

        False: the run is final in the database, and nothing was written.

        Raises:
            ActiveRunConflictError: the thread has another active run; ``sqlstate`` is ``23505``.
            IdempotencyConflictError: the key made another run; ``existing`` is its row.
        """
        run = _new_run(
            run_id=run_id,
            thread_id=thread_id,
            assistant_id=assistant_id,
            user_id=resolve_user_id(user_id),
            model_name=model_name,
            status=status,
            operation_kind=operation_kind,
            multitask_strategy=multitask_strategy,
            metadata=metadata,
            kwargs=kwargs,
            error=error,
            stop_reason=stop_reason,
            created_at=created_at,
            follow_up_to_run_id=follow_up_to_run_id,
            owner_worker_id=owner_worker_id,
            lease_expires_at=lease_expires_at,
            idempotency_key=idempotency_key,
        )
        try:
            return await self._runs().put_run(run)
        except IdempotencyConflictError as conflict:
            raise _with_row(conflict) from conflict

    async def get(self, run_id: IdLike, *, user_id: User = CONTEXT_USER) -> Row | None:
        """One run."""
        run = await self._runs().get_run(run_id, user_id=resolve_user_id(user_id))
        return None if run is None else as_row(run)

    async def list_by_thread(
        self, thread_id: IdLike, *, user_id: User = CONTEXT_USER, limit: int = 100
    ) -> list[Row]:
        """A thread's runs, newest first."""
        return as_rows(
            await self._runs().list_runs_by_thread(
                thread_id, user_id=resolve_user_id(user_id), limit=limit, runs_only=True
            )
        )

    async def get_many_by_thread(
        self, thread_id: IdLike, run_ids: Iterable[IdLike], *, user_id: User = CONTEXT_USER
    ) -> dict[str, Row]:
        """Those of the given runs that belong to the thread, by run_id."""
        runs = await self._runs().get_runs(
            thread_id, as_texts(run_ids), user_id=resolve_user_id(user_id), runs_only=True
        )
        return {run_id: as_row(run) for run_id, run in runs.items()}

    async def list_pending(self, *, before: Time | None = None) -> list[Row]:
        """Pending runs of all threads, oldest first."""
        return as_rows(await self._runs().list_pending(before=before, runs_only=True))

    async def list_inflight(self, *, before: Time | None = None) -> list[Row]:
        """Everything pending or running in all threads, oldest first."""
        return as_rows(await self._runs().list_inflight(before=before))

    async def list_successful_regenerate_sources(
        self, thread_id: IdLike, *, user_id: User = CONTEXT_USER
    ) -> set[str]:
        """The runs that a successful run of the thread regenerated."""
        return await self._runs().list_successful_regenerate_sources(
            thread_id, user_id=resolve_user_id(user_id)
        )

    async def list_edit_regenerate_runs(
        self, thread_id: IdLike, *, user_id: User = CONTEXT_USER
    ) -> list[Row]:
        """The thread's runs that replay an edited message, oldest first."""
        return as_rows(
            await self._runs().list_edit_regenerate_runs(
                thread_id, user_id=resolve_user_id(user_id)
            )
        )

    async def delete(self, run_id: IdLike, *, user_id: User = CONTEXT_USER) -> bool:
        """Remove a run. False: there is none."""
        return await self._runs().delete_run(run_id, user_id=resolve_user_id(user_id))

    async def delete_thread_operation(self, run_id: IdLike, *, user_id: IdLike | None) -> bool:
        """Remove an operation of any kind, which frees its thread. False: there is none."""
        return await self._runs().delete_run(run_id, user_id=resolve_user_id(user_id))

    # -- states and figures ----------------------------------------------------------------------

    async def update_status(
        self,
        run_id: IdLike,
        status: str,
        *,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> bool:
        """Change a run's state; ``None`` keeps. False: no such run, or it is not allowed."""
        return await self._runs().update_run_status(
            run_id, as_text(status), error=error, stop_reason=as_text(stop_reason)
        )

    async def start_run(self, run_id: IdLike) -> bool:
        """Start a pending run. False: it is not pending any more."""
        return await self._runs().start_run(run_id)

    async def update_model_name(self, run_id: IdLike, model_name: Any) -> bool:
        """Set the model's name. False: there is no such run."""
        return await self._runs().update_model_name(run_id, optional_text(model_name))

    async def update_run_completion(
        self, run_id: IdLike, *, status: str, error: str | None = None, **figures: Any
    ) -> bool:
        """Write a run's outcome with its figures; ``None`` keeps. ``figures`` are the arguments
        that :meth:`RunJournal.completion` gives.

        False: no such run, or the change of state is not allowed.
        """
        return await self._runs().update_run_completion(
            run_id, status=as_text(status), error=error, **figures
        )

    async def update_run_progress(self, run_id: IdLike, **figures: Any) -> bool:
        """Refresh the figures of a running run. False: the run is not running."""
        return await self._runs().update_run_progress(run_id, **figures)

    async def aggregate_tokens_by_thread(
        self, thread_id: IdLike, *, include_active: bool = False
    ) -> TokenUsage:
        """What the thread's finished runs used."""
        return await self._runs().aggregate_tokens_by_thread(
            thread_id, include_active=include_active
        )

    # -- ownership -------------------------------------------------------------------------------

    async def create_thread_operation_atomic(
        self,
        run_id: IdLike,
        *,
        thread_id: IdLike,
        owner_worker_id: IdLike | None,
        lease_expires_at: Time | None,
        operation_kind: str = "run",
        multitask_strategy: str = "reject",
        assistant_id: IdLike | None = None,
        user_id: IdLike | None = None,
        model_name: Any = None,
        metadata: dict[str, Any] | None = None,
        kwargs: Any = None,
        created_at: Time | None = None,
        grace_seconds: float = 10,
        idempotency_key: str | None = None,
    ) -> tuple[Row, list[Row]]:
        """Store a pending operation that takes the thread's slot; gives it and the runs that made
        room for it. ``user_id=None`` is the user of the request context.

        Raises:
            ActiveRunConflictError: the slot is taken; ``reason`` says by what.
            IdempotencyConflictError: the key made a run before; ``existing`` is its row.
        """
        run = _new_run(
            run_id=run_id,
            thread_id=thread_id,
            owner_worker_id=owner_worker_id,
            lease_expires_at=lease_expires_at,
            operation_kind=operation_kind,
            multitask_strategy=multitask_strategy,
            assistant_id=assistant_id,
            user_id=resolve_user_id(CONTEXT_USER if user_id is None else user_id),
            model_name=model_name,
            metadata=metadata,
            kwargs=kwargs,
            created_at=created_at,
            idempotency_key=idempotency_key,
        )
        admission = await self._runs().admit_run(run, grace_seconds=grace_seconds)
        if admission.reused:
            raise IdempotencyConflictError(
                f"the idempotency key already made run {admission.run.run_id!r}",
                existing=as_row(admission.run),
            )
        return as_row(admission.run), as_rows(admission.interrupted)

    async def update_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_expires_at: Time
    ) -> bool:
        """Set the end of the owner's lease. False: it owns no such active run."""
        renewal = await self.renew_lease(
            run_id, owner_worker_id=owner_worker_id, lease_expires_at=lease_expires_at
        )
        return renewal.renewed

    async def renew_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_expires_at: Time
    ) -> LeaseRenewal:
        """Set the end of the owner's lease, and learn of a cancel request."""
        return await self._runs().set_lease(
            run_id, owner_worker_id=owner_worker_id, lease_expires_at=lease_expires_at
        )

    async def request_cancel(self, run_id: IdLike, *, action: str) -> str | None:
        """Ask for an active run to be cancelled; the first action asked for wins, and is given."""
        return await self._runs().request_cancel(run_id, action=as_text(action))

    async def finalize_if_not_cancelled(
        self,
        run_id: IdLike,
        *,
        status: str,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> RunFinalization:
        """Write an active run's outcome, unless a cancel was asked for first."""
        return await self._runs().finalize_run(
            run_id, status=as_text(status), error=error, stop_reason=as_text(stop_reason)
        )

    async def claim_for_takeover(
        self, run_id: IdLike, *, grace_seconds: float, error: str, stop_reason: str | None = None
    ) -> bool:
        """End an active run as ``error`` if its lease is missing or expired at this moment."""
        return await self._runs().claim_expired_run(
            run_id, grace_seconds=grace_seconds, error=error, stop_reason=as_text(stop_reason)
        )

    async def list_inflight_with_expired_lease(
        self, *, before: Time | None = None, grace_seconds: float = 10
    ) -> list[Row]:
        """Active runs whose lease is missing or expired, oldest first."""
        return as_rows(
            await self._runs().list_expired_inflight(before=before, grace_seconds=grace_seconds)
        )


def _new_run(
    *,
    model_name: Any,
    metadata: dict[str, Any] | None,
    kwargs: Any,
    created_at: Time | None,
    lease_expires_at: Time | None,
    operation_kind: str,
    multitask_strategy: str,
    status: str = "pending",
    stop_reason: str | None = None,
    **fields: Any,
) -> RunCreate:
    try:
        return RunCreate(
            model_name=optional_text(model_name),
            metadata={} if metadata is None else metadata,
            kwargs={} if kwargs is None else kwargs,
            created_time=_time("created_at", created_at),
            lease_expires_at=_time("lease_expires_at", lease_expires_at),
            operation_kind=as_text(operation_kind),
            multitask_strategy=as_text(multitask_strategy),
            status=as_text(status),
            stop_reason=as_text(stop_reason),
            **fields,
        )
    except ValidationError as error:
        raise invalid(error) from None


def _time(field: str, value: Time | None) -> datetime | None:
    return None if value is None else as_utc(field, value)


def _with_row(conflict: IdempotencyConflictError) -> IdempotencyConflictError:
    existing = conflict.existing
    row = as_row(existing) if isinstance(existing, Run) else existing
    return IdempotencyConflictError(str(conflict), existing=row)
