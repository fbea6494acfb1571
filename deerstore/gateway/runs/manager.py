"""The life of a run, decided in the database and carried out in this process.

A :class:`RunManager` admits runs, keeps their leases alive, tells their tasks to stop, and cleans
up behind workers that died. What may happen to a run is always decided by a compare-and-set in
the database; the process keeps only what cannot live there: the task, the event that tells it to
stop, and the time until which its lease is known to hold.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from deerstore import values
from deerstore.errors import DeerstoreError, InvalidValueError
from deerstore.gateway.runs.leases import LeaseKeeper
from deerstore.gateway.runs.local import LocalRun
from deerstore.gateway.runs.outcome import CancelOutcome, write_outcome
from deerstore.gateway.runs.recovery import ORPHANED, end_orphans
from deerstore.gateway.stores.adapters import StorageRunRepository
from deerstore.repositories import Run, RunAdmission, RunCreate, RunFinalization

if TYPE_CHECKING:
    from deerstore.database import Session

__all__ = ["RunManager"]

T = TypeVar("T")

_log = logging.getLogger("deerstore.gateway")


class RunManager:
    """Admission, start, progress, completion, cancel, leases and recovery of runs.

    Args:
        session_factory: gives sessions, as ``AppPersistence.session_factory`` does.
        worker_id: names this worker as the owner of its runs, at most 128 characters; default:
            host, process id and a random part. Two live workers must not share one.
        lease_seconds: how long a lease holds without being renewed.
        grace_seconds: how long after its end a lease still counts, so that clocks and short
            pauses do not cost a run.
        heartbeat: renew the leases of this worker's runs in the background, three times per
            lease. Without it, call :meth:`renew_leases` yourself.

    A manager belongs to one event loop.
    """

    def __init__(
        self,
        session_factory: Callable[[], Session],
        *,
        worker_id: str | None = None,
        lease_seconds: float = 30,
        grace_seconds: float = 10,
        heartbeat: bool = True,
    ) -> None:
        if lease_seconds <= 0:
            raise InvalidValueError("lease_seconds must be more than 0", field="lease_seconds")
        if grace_seconds < 0:
            raise InvalidValueError("grace_seconds must be 0 or more", field="grace_seconds")
        self.worker_id = values.identifier("worker_id", worker_id or _default_worker_id(), 128)
        self._runs_table = StorageRunRepository(session_factory)
        self._lease_seconds = lease_seconds
        self._grace_seconds = grace_seconds
        self._heartbeat = heartbeat
        self._local: dict[str, LocalRun] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._admissions: set[asyncio.Task[RunAdmission]] = set()
        self._leases = LeaseKeeper(
            self._runs_table,
            self.worker_id,
            lease_seconds,
            self._local,
            interrupt=lambda run_id: self.finish(run_id, status="interrupted"),
            until_told=self._until_told,
        )
        self._background: set[asyncio.Task[Any]] = set()
        self._closing = False

    # -- admission -------------------------------------------------------------------------------

    async def create_or_reject(
        self,
        thread_id: str,
        assistant_id: str | None = None,
        *,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        kwargs: Any = None,
        multitask_strategy: str = "reject",
        model_name: str | None = None,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        follow_up_to_run_id: str | None = None,
    ) -> Run:
        """Admit a run as the thread's only active one, pending and owned by this worker.

        ``reject`` raises while another run is active; ``interrupt`` and ``rollback`` mark that
        run interrupted and admit this one in the same transaction, unless another live worker
        owns it. The same ``idempotency_key`` returns the run that it made first.

        Raises:
            ActiveRunConflictError: the thread's slot is taken; ``reason`` says by what.
            InvalidValueError: a value breaks its rule; ``enqueue`` is not supported.
        """
        if self._closing:
            raise DeerstoreError("the run manager is shutting down; no new run is admitted")
        wanted = RunCreate(
            run_id=run_id or str(uuid.uuid4()),
            thread_id=thread_id,
            assistant_id=assistant_id,
            user_id=user_id,
            metadata=metadata or {},
            kwargs={} if kwargs is None else kwargs,
            multitask_strategy=multitask_strategy,
            model_name=model_name,
            idempotency_key=idempotency_key,
            follow_up_to_run_id=follow_up_to_run_id,
            owner_worker_id=self.worker_id,
        )
        admitting = self._in_background(self._admit(wanted))
        self._admissions.add(admitting)
        admitting.add_done_callback(self._admissions.discard)
        try:
            admission = await asyncio.shield(admitting)
        except asyncio.CancelledError:
            # The row may become durable after the caller is gone: nobody would ever run it.
            self._in_background(self._withdraw(admitting))
            raise
        return admission.run

    async def _admit(self, wanted: RunCreate) -> RunAdmission:
        asked = time.monotonic()
        admission = await self._runs_table.admit_run(
            wanted, lease_seconds=self._lease_seconds, grace_seconds=self._grace_seconds
        )
        for interrupted in admission.interrupted:
            local = self._local.get(interrupted.run_id)
            if local is not None:
                local.superseded = True
                local.signal(wanted.multitask_strategy)
        if not admission.reused:
            run = admission.run
            self._local[run.run_id] = LocalRun(run.run_id, asked + self._lease_seconds)
            if self._heartbeat:
                self._leases.keep_beating()
        return admission

    async def _withdraw(self, admitting: asyncio.Task[RunAdmission]) -> None:
        try:
            admission = await admitting
        except DeerstoreError:
            return
        if not admission.reused:
            await self.finish(
                admission.run.run_id, status="interrupted", error="The caller went away."
            )

    # -- execution -------------------------------------------------------------------------------

    def attach(self, run_id: str, task: asyncio.Task[Any]) -> None:
        """Tell the manager which task executes a run that it admitted.

        A cancel then stops the task; a task that ends without :meth:`finish` has its run ended.
        """
        local = self._local.get(run_id)
        if local is None:
            raise DeerstoreError(f"run {run_id!r} was not admitted by this manager, or has ended")
        local.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: self._settle(local, done))
        if local.abort.is_set():
            task.cancel()

    def abort_event(self, run_id: str) -> asyncio.Event:
        """The event that is set when the run has to stop; for work that polls.

        A run that is not this manager's gets an event that is set already.
        """
        local = self._local.get(run_id)
        if local is not None:
            return local.abort
        event = asyncio.Event()
        event.set()
        return event

    def abort_action(self, run_id: str) -> str | None:
        """``interrupt`` or ``rollback`` once the run was told to stop, else ``None``."""
        local = self._local.get(run_id)
        return None if local is None else local.action

    def holds_lease(self, run_id: str) -> bool:
        """Whether this worker may still write for the run: its lease is confirmed."""
        local = self._local.get(run_id)
        return local is not None and local.holds_lease

    async def start(self, run_id: str) -> bool:
        """Make a pending run running. ``False``: it was stopped or taken over meanwhile."""
        if self._leases.has_lost(run_id):
            return False
        return await self._runs_table.start_run(run_id)

    async def progress(self, run_id: str, **fields: Any) -> bool:
        """Write figures of a running run, as ``update_run_progress`` takes them.

        ``False``: the run is not running, or this worker lost its lease and must not write.
        """
        if self._leases.has_lost(run_id):
            return False
        return await self._runs_table.update_run_progress(run_id, **fields)

    async def finish(
        self,
        run_id: str,
        *,
        status: str,
        error: str | None = None,
        stop_reason: str | None = None,
        **completion: Any,
    ) -> RunFinalization:
        """End a run, with its figures, in one transaction; the arguments of
        ``RunJournal.completion()`` fit.

        ``finalized`` is false when a cancel was recorded first, or the run made room for a newer
        one of this worker (``cancel_action`` says what to do: do it, then finish as
        ``interrupted``, and after a rollback once more, as ``error``); and when the run had ended
        already or this worker lost its lease.
        """
        if self._leases.has_lost(run_id):
            _log.warning("the lease of run %s was lost: its outcome is not written", run_id)
            return RunFinalization(finalized=False, cancel_action=None)
        outcome = await self._runs_table.together(
            lambda runs: write_outcome(runs, run_id, status, error, stop_reason, completion)
        )
        local = self._local.get(run_id)
        if local is not None and not outcome.finalized and outcome.cancel_action is None:
            await self._until_told()
            if local.superseded:
                return RunFinalization(finalized=False, cancel_action=local.action)
        if outcome.finalized or outcome.cancel_action is None:
            self._local.pop(run_id, None)
        return outcome

    # -- cancel ----------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, action: str = "interrupt") -> CancelOutcome:
        """Stop a run, wherever it is executed. The request is durable; the first action wins.

        A run whose task is attached here ends when that task has ended; until then it keeps the
        thread's slot, so that a rollback is over before the next run begins.
        """
        run = await self._runs_table.get_run(run_id)
        if run is None:
            return CancelOutcome.UNKNOWN
        winner = await self._runs_table.request_cancel(run_id, action=action)
        if winner is None:
            # Not active (any more): a stop that came before is no error.
            run = await self._runs_table.get_run(run_id)
            if run is None:
                return CancelOutcome.UNKNOWN
            if run.status == "interrupted":
                return CancelOutcome.CANCELLED
            return CancelOutcome.NOT_CANCELLABLE
        local = self._local.get(run_id)
        if local is not None and local.holds_lease:
            local.signal(winner)
            if local.task is None:
                await self.finish(run_id, status="interrupted")
            return CancelOutcome.CANCELLED
        if run.owner_worker_id == self.worker_id:
            # Its process is gone: a task does not survive a restart under the same name.
            await self._runs_table.update_run_status(run_id, "interrupted")
            return CancelOutcome.CANCELLED
        if await self._runs_table.claim_expired_run(
            run_id, grace_seconds=self._grace_seconds, error=ORPHANED, stop_reason="cancelled"
        ):
            return CancelOutcome.TAKEN_OVER
        return CancelOutcome.REQUESTED

    # -- leases and recovery ---------------------------------------------------------------------

    async def renew_leases(self) -> None:
        """Renew the lease of each run of this worker once, and obey what the database says."""
        await self._leases.renew()

    async def reconcile_orphaned_inflight_runs(
        self,
        *,
        before: datetime | str | None = None,
        error: str = ORPHANED,
        restarted: bool = False,
        leased_only: bool = False,
    ) -> list[Run]:
        """End pending and running rows without a live owner as errors; returns them as ended.

        ``before`` leaves out rows created at or after it. A run that renewed its lease meanwhile
        lives. Nothing is resumed.

        ``restarted`` also ends what a former process of this worker's name left, whose leases may
        still run: call it so before anything is admitted. ``leased_only`` leaves out rows that
        never had a lease, which another kind of worker may be carrying out.
        """
        return await end_orphans(
            self._runs_table,
            error=error,
            grace_seconds=self._grace_seconds,
            before=before,
            leased_only=leased_only,
            former_worker=self.worker_id if restarted else None,
            is_held=self.holds_lease,
        )

    async def shutdown(self, *, drain_seconds: float = 10, abort_seconds: float = 5) -> None:
        """Admit nothing more, let running tasks end, then stop them, then end what is left.

        Tasks get ``drain_seconds`` to end by themselves and, told to stop, ``abort_seconds``
        more. May be called twice.
        """
        self._closing = True
        await self._wait_for_tasks(drain_seconds)
        for local in list(self._local.values()):
            local.signal("interrupt")
        await self._wait_for_tasks(abort_seconds)
        for run_id in list(self._local):
            try:
                await self.finish(run_id, status="interrupted", stop_reason="shutdown")
            except DeerstoreError as failure:
                # Its lease runs out, and the next start ends it.
                _log.warning("run %s could not be ended at shutdown: %s", run_id, failure)
            self._local.pop(run_id, None)
        await self._leases.aclose()
        await asyncio.gather(*self._background, return_exceptions=True)

    # -- inside ----------------------------------------------------------------------------------

    async def _until_told(self) -> None:
        """Wait for what this worker admits just now: it may have made room in the database, and
        tells the run that had to make room only afterwards.
        """
        if self._admissions:
            await asyncio.wait(set(self._admissions))

    def _settle(self, local: LocalRun, task: asyncio.Task[Any]) -> None:
        """The task of a run ended: end the run, if the task did not."""
        if self._local.get(local.run_id) is not local:
            return
        if local.lost:
            self._local.pop(local.run_id, None)
            return
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            ending = self._end(local, "error", f"The run's task failed: {type(failure).__name__}.")
        elif task.cancelled() or local.abort.is_set():
            ending = self._end(local, "interrupted", None)
        else:
            ending = self._end(local, "error", "The run's task ended without an outcome.")
        self._in_background(ending)

    async def _end(self, local: LocalRun, status: str, error: str | None) -> None:
        outcome = await self.finish(local.run_id, status=status, error=error)
        if not outcome.finalized and outcome.cancel_action is not None:
            await self.finish(local.run_id, status="interrupted", error=error)

    def _in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended_in_background)
        return task

    def _ended_in_background(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("background work of the run manager failed", exc_info=task.exception())

    async def _wait_for_tasks(self, seconds: float) -> None:
        # Also those whose run has its outcome: they may have more to write.
        waiting = self._tasks - {asyncio.current_task()}
        if waiting and seconds > 0:
            await asyncio.wait(waiting, timeout=seconds)


def _default_worker_id() -> str:
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
