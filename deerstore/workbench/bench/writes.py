"""The operations that write. Where a row can be changed once only, each call has its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from deerstore.repositories import FeedbackCreate, RunCreate, ThreadMetaCreate, User, UserCreate
from deerstore.workbench.bench.operation import Operation, Repositories, Work
from deerstore.workbench.bench.seed import EVENT_METADATA, FIGURES, KWARGS, METADATA, event, new_run

__all__ = ["WRITES"]

_RUNNING = "bench-run-195"
_THREAD_METADATA = {"topic": "t1", "number": 4, "project": "p1"}
_TOKENS = FIGURES["token_usage_by_model"]


def _write(
    name: str,
    call: Work,
    prepare: Work | None = None,
    *,
    given: Callable[[str], Any] = str,
    payload: tuple[Any, ...] = (),
    calls: int = 5,
    kind: str = "single",
) -> Operation:
    return Operation(name, call, given, prepare, payload, writes=True, calls=calls, kind=kind)


def _user(key: str) -> UserCreate:
    return UserCreate(
        id=key[-36:],
        email=f"{key}@example.com",
        password_hash="x" * 60,
        oauth_provider="github",
        oauth_id=key,
    )


def _changed_user(key: str) -> User:
    return User(
        id="bench-user-9",
        email="User.9@example.com",
        password_hash="x" * 60,
        system_role="user",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        oauth_provider="github",
        oauth_id="9",
        needs_setup=False,
        token_version=len(key),
    )


async def _prepared_run(to: Repositories, key: str) -> Any:
    return await to.runs.create_run(new_run(key, f"t-{key}"))


async def _started_run(to: Repositories, key: str) -> Any:
    return await to.runs.create_run(new_run(key, f"t-{key}", status="running"))


def _owned_run(key: str) -> RunCreate:
    return new_run(key, f"t-{key}", owner_worker_id="worker")


async def _leased_run(to: Repositories, key: str) -> Any:
    return await to.runs.admit_run(_owned_run(key), lease_seconds=-3_600)


def _new_thread(key: str) -> ThreadMetaCreate:
    return ThreadMetaCreate(
        thread_id=key,
        user_id="bench-user-1",
        display_name="A conversation",
        metadata=_THREAD_METADATA,
    )


async def _thread(to: Repositories, key: str) -> Any:
    return await to.threads.create_thread_meta(_new_thread(key))


def _rating(key: str, run_id: str) -> FeedbackCreate:
    return FeedbackCreate(
        feedback_id=key,
        run_id=run_id,
        thread_id=f"t-{key}",
        rating=1,
        user_id="bench-user-1",
        comment="Clear and short.",
    )


async def _rated(to: Repositories, key: str) -> Any:
    return await to.feedback.create_feedback(_rating(key, key))


async def _appended(to: Repositories, key: str) -> Any:
    return await to.events.append(event(f"t-{key}", key, 1))


def _batch(count: int) -> Operation:
    events = [event("bench-appended", "bench-appended", number) for number in range(count)]
    payload = [each.content for each in events if not isinstance(each.content, str)]
    return _write(
        f"run_events.append_batch {count}",
        lambda to, batch: to.events.append_batch(batch),
        given=lambda _: events,
        payload=(*payload, *[EVENT_METADATA] * count),
        calls={1: 5, 10: 4, 100: 2, 1000: 1}[count],
        kind="batch" if count > 1 else "single",
    )


def _mixed() -> Operation:
    events = [event(f"bench-mixed-{n % 2}", "bench-mixed", n) for n in range(10)]
    return _write(
        "run_events.append_batch 10, two threads",
        lambda to, batch: to.events.append_batch(batch),
        given=lambda _: events,
        payload=(*[each.content for each in events[1::2]], *[EVENT_METADATA] * 10),
        kind="batch",
    )


WRITES = (
    _write("users.create_user", lambda to, user: to.users.create_user(user), given=_user),
    _write("users.update_user", lambda to, user: to.users.update_user(user), given=_changed_user),
    _write(
        "runs.create_run",
        lambda to, run: to.runs.create_run(run),
        given=new_run,
        payload=(METADATA, KWARGS),
    ),
    _write(
        "runs.admit_run",
        lambda to, run: to.runs.admit_run(run, lease_seconds=60),
        given=_owned_run,
        payload=(METADATA, KWARGS),
    ),
    _write("runs.start_run", lambda to, key: to.runs.start_run(key), _prepared_run),
    _write(
        "runs.update_run_status",
        lambda to, key: to.runs.update_run_status(key, "success"),
        _started_run,
    ),
    _write("runs.update_model_name", lambda to, _: to.runs.update_model_name(_RUNNING, "larger")),
    _write(
        "runs.update_run_progress",
        lambda to, _: to.runs.update_run_progress(_RUNNING, **FIGURES),
        payload=(_TOKENS,),
    ),
    _write(
        "runs.update_run_completion",
        lambda to, key: to.runs.update_run_completion(key, status="success", **FIGURES),
        _started_run,
        payload=(_TOKENS,),
    ),
    _write(
        "runs.finalize_run",
        lambda to, key: to.runs.finalize_run(key, status="success"),
        _started_run,
    ),
    _write(
        "runs.renew_lease",
        lambda to, key: to.runs.renew_lease(key, owner_worker_id="worker", lease_seconds=60),
        _leased_run,
    ),
    _write(
        "runs.request_cancel",
        lambda to, key: to.runs.request_cancel(key, action="interrupt"),
        _started_run,
    ),
    _write(
        "runs.claim_expired_run",
        lambda to, key: to.runs.claim_expired_run(key, error="the worker is gone"),
        _leased_run,
    ),
    _write("runs.delete_run", lambda to, key: to.runs.delete_run(key), _prepared_run),
    _write(
        "run_events.append",
        lambda to, one: to.events.append(one),
        given=lambda _: event("bench-single", "bench-single", 1),
        payload=(event("", "", 1).content, EVENT_METADATA),
    ),
    _batch(1),
    _batch(10),
    _batch(100),
    _batch(1000),
    _mixed(),
    _write(
        "run_events.append_if_absent",
        lambda to, one: to.events.append_if_absent(one),
        given=lambda key: event("bench-once", key, 1),
        payload=(event("", "", 1).content, EVENT_METADATA),
    ),
    _write(
        "run_events.delete_by_run",
        lambda to, key: to.events.delete_by_run(f"t-{key}", key),
        _appended,
    ),
    _write(
        "run_events.delete_by_thread",
        lambda to, key: to.events.delete_by_thread(f"t-{key}"),
        _appended,
    ),
    _write(
        "threads.create_thread_meta",
        lambda to, thread: to.threads.create_thread_meta(thread),
        given=_new_thread,
        payload=(_THREAD_METADATA,),
    ),
    _write(
        "threads.update_thread_meta",
        lambda to, _: to.threads.update_thread_meta("bench-thread-9", status="busy"),
    ),
    _write(
        "threads.merge_thread_metadata",
        lambda to, key: to.threads.merge_thread_metadata("bench-thread-9", {"last": key}),
        payload=({**_THREAD_METADATA, "last": "key"},),
    ),
    _write(
        "threads.update_owner",
        lambda to, _: to.threads.update_owner("bench-thread-9", "bench-user-9"),
    ),
    _write("threads.delete_thread", lambda to, key: to.threads.delete_thread(key), _thread),
    _write(
        "feedback.create_feedback",
        lambda to, rating: to.feedback.create_feedback(rating),
        given=lambda key: _rating(key, key),
    ),
    _write(
        "feedback.upsert_feedback",
        lambda to, rating: to.feedback.upsert_feedback(rating),
        given=lambda _: _rating("bench-upserted", "bench-run-1"),
    ),
    _write("feedback.delete_feedback", lambda to, key: to.feedback.delete_feedback(key), _rated),
    _write(
        "feedback.delete_feedback_by_run",
        lambda to, key: to.feedback.delete_feedback_by_run(f"t-{key}", key),
        _rated,
    ),
)
"""Every writing method of the repositories."""
