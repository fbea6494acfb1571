"""The operations that read."""

from __future__ import annotations

from typing import Any

from deerstore.workbench.bench.operation import Operation, Repositories, Work
from deerstore.workbench.bench.seed import EVENT_THREAD, RUN_THREAD

__all__ = ["READS"]

_MANY = [f"bench-run-{number}" for number in range(0, 200, 10)]
_PARTS = [f"bench-part-{number}" for number in range(20)]


def _single(name: str, call: Work) -> Operation:
    return Operation(name, call)


def _page(name: str, call: Work, calls: int = 3) -> Operation:
    return Operation(name, call, calls=calls, kind="page")


async def _no_limit_by_run(to: Repositories, _: str) -> Any:
    return await to.feedback.list_feedback_by_run("bench-run-1")


READS = (
    _single("users.get_user_by_id", lambda to, _: to.users.get_user_by_id("bench-user-7")),
    _single(
        "users.get_user_by_email", lambda to, _: to.users.get_user_by_email("user.7@EXAMPLE.com")
    ),
    _single("users.get_user_by_oauth", lambda to, _: to.users.get_user_by_oauth("github", "7")),
    _single("users.get_first_admin", lambda to, _: to.users.get_first_admin()),
    _single("users.count_users", lambda to, _: to.users.count_users()),
    _single("users.count_admin_users", lambda to, _: to.users.count_admin_users()),
    _single("runs.get_run", lambda to, _: to.runs.get_run("bench-run-7")),
    _page("runs.get_runs 20", lambda to, _: to.runs.get_runs(RUN_THREAD, _MANY)),
    _page("runs.list_runs_by_thread 50", lambda to, _: to.runs.list_runs_by_thread(RUN_THREAD)),
    _page(
        "runs.list_runs_before 50",
        lambda to, _: to.runs.list_runs_before(RUN_THREAD, before_run_id="bench-run-150"),
    ),
    _single(
        "runs.aggregate_tokens_by_thread 190",
        lambda to, _: to.runs.aggregate_tokens_by_thread(RUN_THREAD),
    ),
    _page(
        "run_events.list_messages 50 of 2000", lambda to, _: to.events.list_messages(EVENT_THREAD)
    ),
    _page(
        "run_events.list_messages_by_run 50",
        lambda to, _: to.events.list_messages_by_run(EVENT_THREAD, "bench-part-7"),
    ),
    _page(
        "run_events.list_events 500",
        lambda to, _: to.events.list_events("bench-long", "bench-long"),
        calls=2,
    ),
    _single(
        "run_events.last_ai_seq_by_run 20",
        lambda to, _: to.events.last_ai_seq_by_run(EVENT_THREAD, _PARTS),
    ),
    _single("run_events.count_messages 2000", lambda to, _: to.events.count_messages(EVENT_THREAD)),
    _single("threads.get_thread_meta", lambda to, _: to.threads.get_thread_meta("bench-thread-7")),
    _single(
        "threads.check_access",
        lambda to, _: to.threads.check_access("bench-thread-7", "bench-user-7"),
    ),
    _page("threads.search_threads 100", lambda to, _: to.threads.search_threads()),
    _page(
        "threads.search_threads 10, one filter",
        lambda to, _: to.threads.search_threads(metadata={"number": 7}),
    ),
    _page(
        "threads.search_threads 10, three filters",
        lambda to, _: to.threads.search_threads(
            metadata={"number": 7, "topic": "t1", "project": "p1"}
        ),
    ),
    _single("feedback.get_feedback", lambda to, _: to.feedback.get_feedback("bench-feedback-7")),
    _page("feedback.list_feedback_by_run 50", _no_limit_by_run),
    _page(
        "feedback.list_feedback_by_thread 100",
        lambda to, _: to.feedback.list_feedback_by_thread(RUN_THREAD),
    ),
    _single(
        "feedback.latest_feedback_by_run_ids 20",
        lambda to, _: to.feedback.latest_feedback_by_run_ids(RUN_THREAD, _MANY),
    ),
    _single(
        "feedback.aggregate_feedback_by_run",
        lambda to, _: to.feedback.aggregate_feedback_by_run(RUN_THREAD, "bench-run-1"),
    ),
    _page("runs.list_pending", lambda to, _: to.runs.list_pending()),
    _page("runs.list_inflight 10", lambda to, _: to.runs.list_inflight()),
    _page("runs.list_expired_inflight", lambda to, _: to.runs.list_expired_inflight()),
)
"""Every reading method of the repositories, with the input of a gateway's ordinary day."""
