"""Runs: what ran, for whom, how it ended, what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

from pydantic import BaseModel, Field

from deerstore.repositories.contracts.types import CREATED, STORED, Id, IdLike, JsonObject, Time

__all__ = [
    "ACTIVE_STATUSES",
    "CANCEL_ACTIONS",
    "RUN_STATUSES",
    "CallerUsage",
    "LeaseRenewal",
    "ModelUsage",
    "Run",
    "RunAdmission",
    "RunCreate",
    "RunFigures",
    "RunFinalization",
    "RunRepository",
    "TokenUsage",
]

RUN_STATUSES = ("pending", "running", "success", "error", "timeout", "interrupted")
ACTIVE_STATUSES = ("pending", "running")
CANCEL_ACTIONS = ("interrupt", "rollback")


class RunCreate(BaseModel):
    """A run to be stored. ``created_time`` defaults to now; naive times mean UTC.

    ``kwargs`` is any JSON-like value and comes back exactly; ``metadata`` is a strict JSON object.
    """

    model_config = CREATED

    run_id: Id
    thread_id: Id
    assistant_id: Id | None = None
    user_id: Id | None = None
    status: str = "pending"
    model_name: str | None = None
    multitask_strategy: str = "reject"
    error: str | None = None
    follow_up_to_run_id: Id | None = None
    metadata: JsonObject = Field(default_factory=dict)
    kwargs: Any = Field(default_factory=dict)
    created_time: datetime | None = None
    operation_kind: str = "run"
    stop_reason: str | None = None
    owner_worker_id: Id | None = None
    lease_expires_at: datetime | None = None
    idempotency_key: str | None = None


class Run(BaseModel):
    """A run as it is stored. Times are in UTC; counts are tokens, messages or calls."""

    model_config = STORED

    run_id: str
    thread_id: str
    assistant_id: str | None
    user_id: str | None
    status: str
    operation_kind: str
    idempotency_key: str | None
    model_name: str | None
    multitask_strategy: str
    metadata: dict[str, Any]
    kwargs: Any
    error: str | None
    stop_reason: str | None
    message_count: int
    first_human_message: str | None
    last_ai_message: str | None
    total_input_tokens: int
    total_output_tokens: int
    total_tokens: int
    llm_call_count: int
    lead_agent_tokens: int
    subagent_tokens: int
    middleware_tokens: int
    token_usage_by_model: dict[str, Any]
    follow_up_to_run_id: str | None
    owner_worker_id: str | None
    lease_expires_at: datetime | None
    cancel_action: str | None
    cancel_requested_at: datetime | None
    created_time: datetime
    updated_time: datetime


class RunAdmission(BaseModel):
    """What an admission did."""

    model_config = STORED

    run: Run
    """The run that was admitted, or that the idempotency key made earlier."""
    interrupted: list[Run] = []
    """Runs that made room, as they are now, oldest first."""
    reused: bool = False
    """The idempotency key had made ``run`` before; nothing was written."""


class LeaseRenewal(BaseModel):
    """Whether a lease was renewed, and what the owner is asked to do."""

    model_config = STORED

    renewed: bool
    cancel_action: str | None = None


class RunFinalization(BaseModel):
    """Whether an outcome was written; if not, the cancel request that won, if that is why."""

    model_config = STORED

    finalized: bool
    cancel_action: str | None = None


class RunFigures(TypedDict, total=False):
    """What a run has done and used so far. What is left out, or ``None``, is kept; zero is zero.

    The two messages are cut to 2,000 characters. ``token_usage_by_model`` maps a model's name to
    ``{input_tokens, output_tokens, total_tokens}``.
    """

    message_count: int | None
    first_human_message: str | None
    last_ai_message: str | None
    total_input_tokens: int | None
    total_output_tokens: int | None
    total_tokens: int | None
    llm_call_count: int | None
    lead_agent_tokens: int | None
    subagent_tokens: int | None
    middleware_tokens: int | None
    token_usage_by_model: dict[str, Any] | None


class ModelUsage(TypedDict):
    """What one model used, and in how many runs it appears."""

    tokens: int
    runs: int


class CallerUsage(TypedDict):
    """Tokens by who called the model."""

    lead_agent: int
    subagent: int
    middleware: int


class TokenUsage(TypedDict):
    """The sums over a thread's runs."""

    total_tokens: int
    total_input_tokens: int
    total_output_tokens: int
    total_runs: int
    by_model: dict[str, ModelUsage]
    by_caller: CallerUsage


@runtime_checkable
class RunRepository(Protocol):
    """Storage of runs.

    States are pending, running, success, error, timeout and interrupted. Allowed changes: pending
    to any, running to any but pending, interrupted to error, and each to itself, which refreshes
    its figures. Every change is one compare-and-set, whose outcome is returned.

    A filter by ``user_id`` never matches a row without an owner; ``None`` means "do not filter".
    Lengths in characters: ids 64, assistant_id, model_name and owner_worker_id 128,
    idempotency_key 255, stop_reason 50, operation_kind 32, multitask_strategy 20. A model name is
    stripped and cut, anything else that is too long raises ``InvalidValueError``.
    """

    # -- storage ---------------------------------------------------------------------------------

    async def create_run(self, run: RunCreate) -> Run:
        """Store a run, without taking its thread's slot.

        Raises:
            DuplicateIdError: the run_id is taken.
            IdempotencyConflictError: the idempotency key made another run.
            ActiveRunConflictError: an adopted database allows one active run per thread.
        """
        ...

    async def put_run(self, run: RunCreate) -> bool:
        """Store a run, or replace what it was created with; it takes its thread's slot.

        A repeated snapshot is harmless: the change of state must be an allowed one, the figures, a
        cancel request and ``created_time`` stay. False: the stored state does not allow it, and
        nothing was written.

        Raises:
            IdempotencyConflictError: the idempotency key made another run.
            ActiveRunConflictError: the thread has another active run.
        """
        ...

    async def get_run(self, run_id: IdLike, *, user_id: IdLike | None = None) -> Run | None:
        """One run by its id."""
        ...

    async def get_run_by_idempotency_key(self, idempotency_key: str) -> Run | None:
        """The run that the key made."""
        ...

    async def get_runs(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        user_id: IdLike | None = None,
        runs_only: bool = False,
    ) -> dict[str, Run]:
        """Those of the given runs that belong to the thread, by run_id.

        ``runs_only`` leaves out operations of another kind than ``run``.
        """
        ...

    async def list_runs_by_thread(
        self,
        thread_id: IdLike,
        *,
        user_id: IdLike | None = None,
        limit: int = 50,
        offset: int = 0,
        runs_only: bool = False,
    ) -> list[Run]:
        """A page of a thread's runs, newest first: by created, then run_id, both descending."""
        ...

    async def list_runs_before(
        self,
        thread_id: IdLike,
        *,
        before_run_id: IdLike | None = None,
        user_id: IdLike | None = None,
        limit: int = 50,
    ) -> list[Run]:
        """The page after ``before_run_id``, or the first one, in the same order.

        Costs the same however long the history is.

        Raises:
            NotFoundError: the thread has no run ``before_run_id``, so there is no place to go on.
        """
        ...

    async def list_pending(
        self, *, before: Time | None = None, runs_only: bool = False
    ) -> list[Run]:
        """Pending runs of all threads that were created at ``before`` or earlier, oldest first:
        by created, then run_id.
        """
        ...

    async def list_inflight(self, *, before: Time | None = None) -> list[Run]:
        """Pending and running runs, as :meth:`list_pending` lists them."""
        ...

    async def list_successful_regenerate_sources(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> set[str]:
        """The ids in metadata ``regenerate_from_run_id`` of the thread's successful runs."""
        ...

    async def list_edit_regenerate_runs(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> list[Run]:
        """Runs whose metadata has ``replay_kind`` ``edit`` and a ``regenerate_from_run_id``,
        oldest first: by created, then run_id.
        """
        ...

    async def delete_run(self, run_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        """Remove one run. False: there is none."""
        ...

    async def delete_runs_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        """Remove a thread's runs; gives how many there were."""
        ...

    async def count_runs(self) -> int:
        """How many runs there are."""
        ...

    # -- states and figures ----------------------------------------------------------------------

    async def update_run_status(
        self,
        run_id: IdLike,
        status: str,
        *,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> bool:
        """Change a run's state; ``None`` keeps. False: no such run, or it is not allowed."""
        ...

    async def start_run(self, run_id: IdLike) -> bool:
        """Start a pending run. False: it is not pending any more."""
        ...

    async def update_model_name(self, run_id: IdLike, model_name: str | None) -> bool:
        """Set the model's name. False: there is no such run."""
        ...

    async def update_run_progress(self, run_id: IdLike, **figures: Unpack[RunFigures]) -> bool:
        """Refresh the figures of a running run. False: the run is not running."""
        ...

    async def update_run_completion(
        self,
        run_id: IdLike,
        *,
        status: str,
        error: str | None = None,
        **figures: Unpack[RunFigures],
    ) -> bool:
        """Write a run's outcome with its figures; an ``error`` of ``None`` keeps.

        False: no such run, or the change of state is not allowed.
        """
        ...

    async def aggregate_tokens_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None, include_active: bool = False
    ) -> TokenUsage:
        """What a thread's runs with status success or error used (kind ``run`` only).

        ``include_active`` adds running ones. ``runs`` counts the runs in which a model appears.
        """
        ...

    # -- admission, leases, cancelling -----------------------------------------------------------

    async def admit_run(
        self, run: RunCreate, *, lease_seconds: float | None = None, grace_seconds: float = 10
    ) -> RunAdmission:
        """Store a run that takes its thread's slot: at most one active one per thread.

        ``multitask_strategy`` ``reject`` gives way to an active run; ``interrupt`` and
        ``rollback`` interrupt it in the same transaction: a worker's own run always, another
        worker's when its lease is missing or expired (older than ``grace_seconds`` ago), an
        operation of another kind than ``run`` only when its lease is expired. The lease lasts
        ``lease_seconds`` on the database's clock, or until ``run.lease_expires_at``.

        Raises:
            ActiveRunConflictError: the slot is taken; ``reason`` says by what.
            DuplicateIdError: the run_id is taken.
            InvalidValueError: the strategy is not one of the three, or the status is not active.
        """
        ...

    async def renew_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_seconds: float
    ) -> LeaseRenewal:
        """Let the owner's lease end ``lease_seconds`` from now, on the database's clock.

        Not renewed: the worker does not own the run, or the run is not active.
        """
        ...

    async def set_lease(
        self, run_id: IdLike, *, owner_worker_id: IdLike, lease_expires_at: Time
    ) -> LeaseRenewal:
        """As :meth:`renew_lease`, with the time at which the lease ends."""
        ...

    async def request_cancel(self, run_id: IdLike, *, action: str) -> str | None:
        """Ask for an active run to be cancelled: ``interrupt`` or ``rollback``.

        The first action asked for wins and is returned. ``None``: the run is not active.
        """
        ...

    async def finalize_run(
        self,
        run_id: IdLike,
        *,
        status: str,
        error: str | None = None,
        stop_reason: str | None = None,
    ) -> RunFinalization:
        """Write an active run's outcome, unless a cancel was asked for first."""
        ...

    async def claim_expired_run(
        self,
        run_id: IdLike,
        *,
        grace_seconds: float = 10,
        error: str,
        stop_reason: str | None = None,
    ) -> bool:
        """End an active run as ``error`` if its lease is missing or expired at this moment."""
        ...

    async def list_expired_inflight(
        self, *, before: Time | None = None, grace_seconds: float = 10
    ) -> list[Run]:
        """Pending and running runs whose lease is missing or expired, oldest first."""
        ...
