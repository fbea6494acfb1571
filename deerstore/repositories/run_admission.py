"""Admission: at most one admitted active run per thread, across processes.

The database keeps the rule by a unique index over the thread of active, admitted rows. Everything
here reads what stands in the way, decides, and lets the index have the last word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deerstore.database import Executor
from deerstore.errors import (
    ActiveRunConflictError,
    DuplicateIdError,
    IdempotencyConflictError,
    QueryExecutionError,
)
from deerstore.repositories.contracts.runs import Run, RunAdmission
from deerstore.repositories.rows import row_builder
from deerstore.repositories.run_rows import NewRun, build_run
from deerstore.repositories.statements import statement
from deerstore.values import utcnow

__all__ = ["INTERRUPTED", "STRATEGIES", "admit", "overwrite", "refuse_creation", "run_by_key"]

STRATEGIES = ("reject", "interrupt", "rollback")
INTERRUPTED = "Interrupted by a newer run"
"""The ``error`` of a run that made room."""

_ATTEMPTS = 6
"""How often to look before giving up, twice the longest way that is known.

That way has two looks in vain before runs beside the slot count as well. Whatever else makes for
another look is a run that came and went in between; admissions do not: they stand in line.
"""


_build_admission: Callable[[Any], RunAdmission] = row_builder(
    RunAdmission, ("run", "interrupted", "reused")
)


async def admit(executor: Executor, new: NewRun, grace_seconds: float) -> RunAdmission:
    """Store a run that takes its thread's slot. Its parameters are those of ``runs.admit_run``."""
    # Most threads are free, and then one statement is all there is to do.
    run = await _take_slot(executor, new)
    if run is not None:
        return _build_admission((run, [], False))
    return await executor.retrying(lambda tx: _admit_contended(tx, new, grace_seconds))


async def overwrite(executor: Executor, new: NewRun) -> bool:
    """Store a run that takes its thread's slot, or replace what it was created with.

    Its parameters are those of ``runs.admit_run``. False: its state does not allow it.
    """
    if await _take_slot(executor, new) is not None:
        return True
    return await executor.retrying(lambda tx: _overwrite_contended(tx, new))


async def refuse_creation(
    executor: Executor, params: dict[str, Any], cause: Exception | None = None
) -> None:
    """Raise for what stands in the way of a new run; return when nothing does any more."""
    id_taken, key_taken, thread_taken = await _conflicts(executor, params)
    if id_taken:
        raise DuplicateIdError(f"there is a run {params['run_id']!r} already") from cause
    if key_taken:
        existing = await run_by_key(executor, params["idempotency_key"])
        if existing is not None:
            raise _key_taken(existing) from cause
    if thread_taken:
        raise _slot_taken(params["thread_id"]) from cause


async def run_by_key(executor: Executor, key: str | None) -> Run | None:
    """The run that an idempotency key made."""
    if key is None:
        return None
    rows = await executor.fetch_tuples(statement("runs.get_run_by_key"), {"idempotency_key": key})
    return build_run(rows[0]) if rows else None


async def _take_slot(executor: Executor, new: NewRun) -> Run | None:
    rows = await executor.fetch_tuples(statement("runs.admit_run"), new.params)
    return new.stored(rows[0][0]) if rows else None


async def _admit_contended(tx: Executor, new: NewRun, grace_seconds: float) -> RunAdmission:
    params = new.params
    interrupting = params["multitask_strategy"] != "reject"
    if interrupting:
        # Waiting at the active run would not do: it is another one after the wait, and of all who
        # waited one gets it. In line each finds what the one before left.
        await tx.execute(statement("runs.queue_for_thread"), thread_id=params["thread_id"])
    interrupted: list[Run] = []
    stuck = 0
    for _ in range(_ATTEMPTS):
        existing = await run_by_key(tx, params["idempotency_key"])
        if existing is not None:
            return _build_admission((existing, [], True))
        if interrupting:
            # An adopted database may have DeerFlow's index, under which a plainly stored run holds
            # the thread as well. It shows by an INSERT that fails again and again for nothing.
            made_room = await _make_room(tx, params, grace_seconds, plain=stuck > 1)
            interrupted += made_room
            stuck = 0 if made_room else stuck + 1
        run = await _take_slot(tx, new)
        if run is not None:
            return _build_admission((run, interrupted, False))
        id_taken, key_taken, thread_taken = await _conflicts(tx, params)
        if key_taken:
            continue
        if id_taken:
            raise DuplicateIdError(f"there is a run {params['run_id']!r} already")
        if thread_taken and not interrupting:
            break
        # What stood in the way has ended, or came while room was made: look again.
    raise _slot_taken(params["thread_id"])


async def _make_room(
    tx: Executor, params: dict[str, Any], grace_seconds: float, *, plain: bool
) -> list[Run]:
    rows = await tx.fetch_tuples(
        statement("runs.lock_active_runs", plain="on" if plain else "off"),
        {"thread_id": params["thread_id"], "grace_seconds": grace_seconds},
    )
    runs = []
    for *columns, lease in rows:
        run = build_run(columns)
        _refuse_interrupting(run, lease, params["owner_worker_id"])
        runs.append(run)
    if not runs:
        return []
    now = utcnow()
    await tx.execute(
        statement("runs.interrupt_runs"),
        run_ids=[run.run_id for run in runs],
        error=INTERRUPTED,
        updated_at=now,
    )
    change = {"status": "interrupted", "error": INTERRUPTED, "updated_time": now}
    return [run.model_copy(update=change) for run in runs]


def _refuse_interrupting(run: Run, lease: str, worker: str | None) -> None:
    if run.operation_kind != "run":
        if lease != "expired":
            raise ActiveRunConflictError(
                f"thread {run.thread_id!r} is reserved by an operation of kind "
                f"{run.operation_kind!r}",
                reason="reservation",
            )
    elif lease == "live" and run.owner_worker_id != worker:
        raise ActiveRunConflictError(
            f"thread {run.thread_id!r} has an active run that another worker owns",
            reason="other_worker",
        )


async def _overwrite_contended(tx: Executor, new: NewRun) -> bool:
    params = new.params
    changes = {
        name: value for name, value in params.items() if name not in ("created_at", "lease_seconds")
    }
    for _ in range(_ATTEMPTS):
        try:
            async with tx.atomic() as inner:
                changed = await inner.execute(statement("runs.overwrite_run"), **changes)
        except QueryExecutionError as error:
            if error.sqlstate != "23505":
                raise
            await _refuse_overwriting(tx, params, error)
            continue  # What stood in the way has ended.
        if changed:
            return True
        id_taken, _, _ = await _conflicts(tx, params)
        if id_taken:
            return False
        if await _take_slot(tx, new) is not None:
            return True
        await _refuse_overwriting(tx, params, None)
    raise _slot_taken(params["thread_id"])


async def _refuse_overwriting(
    tx: Executor, params: dict[str, Any], cause: Exception | None
) -> None:
    existing = await run_by_key(tx, params["idempotency_key"])
    if existing is not None and existing.run_id != params["run_id"]:
        raise _key_taken(existing) from cause
    id_taken, _, thread_taken = await _conflicts(tx, params)
    if thread_taken and (cause is not None or not id_taken):
        raise _slot_taken(params["thread_id"]) from cause


async def _conflicts(executor: Executor, params: dict[str, Any]) -> tuple[bool, bool, bool]:
    ((id_taken, key_taken, thread_taken),) = await executor.fetch_tuples(
        statement("runs.find_create_conflicts"),
        {name: params[name] for name in ("run_id", "thread_id", "idempotency_key")},
    )
    return id_taken, key_taken, thread_taken


def _slot_taken(thread_id: str) -> ActiveRunConflictError:
    return ActiveRunConflictError(f"thread {thread_id!r} already has an active run")


def _key_taken(existing: Run) -> IdempotencyConflictError:
    return IdempotencyConflictError(
        f"the idempotency key already made run {existing.run_id!r}", existing=existing
    )
