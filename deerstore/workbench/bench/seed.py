"""The data that the operations meet: small, and the same on every engine."""

from __future__ import annotations

from typing import Any

from deerstore.repositories import (
    FeedbackCreate,
    RunCreate,
    RunEventCreate,
    ThreadMetaCreate,
    UserCreate,
)
from deerstore.workbench.bench.operation import Repositories

__all__ = [
    "EVENT_METADATA",
    "EVENT_THREAD",
    "FIGURES",
    "KWARGS",
    "METADATA",
    "RUN_THREAD",
    "USERS",
    "event",
    "new_run",
    "seed",
]

USERS = 100
RUN_THREAD = "bench-runs"
"""A thread of 200 runs; the last ten are running."""
EVENT_THREAD = "bench-events"
"""A thread of 2,000 messages in 40 runs, and 500 events in the run ``bench-long``."""

METADATA: dict[str, Any] = {"source": "web", "labels": ["a", "b"], "attempt": 1, "beta": True}
KWARGS: dict[str, Any] = {
    "input": {"messages": [{"role": "user", "content": "What changed since yesterday? " * 4}]},
    "config": {"configurable": {"model": "large", "thinking": False}, "recursion_limit": 100},
}
EVENT_METADATA: dict[str, Any] = {"caller": "lead_agent", "model": "large", "latency_ms": 812}
_WORDS = "The answer has several parts, and each of them is short. " * 5

FIGURES: dict[str, Any] = {
    "message_count": 4,
    "first_human_message": "What changed since yesterday?",
    "last_ai_message": _WORDS,
    "total_input_tokens": 5_120,
    "total_output_tokens": 640,
    "total_tokens": 5_760,
    "llm_call_count": 3,
    "lead_agent_tokens": 5_000,
    "subagent_tokens": 700,
    "middleware_tokens": 60,
    "token_usage_by_model": {
        "large": {"input_tokens": 5_000, "output_tokens": 600, "total_tokens": 5_600},
        "small": {"input_tokens": 120, "output_tokens": 40, "total_tokens": 160},
    },
}


def event(thread_id: str, run_id: str, number: int) -> RunEventCreate:
    """An event: every second one is a message in JSON form, the others are text."""
    content: Any = _WORDS
    if number % 2:
        content = {"type": "ai", "id": f"m{number}", "content": _WORDS, "tool_calls": []}
    return RunEventCreate(
        thread_id=thread_id,
        run_id=run_id,
        user_id="bench-user-1",
        event_type="llm.ai.response" if number % 2 else "llm.human.input",
        category="message",
        content=content,
        metadata=EVENT_METADATA,
    )


def new_run(run_id: str, thread_id: str = RUN_THREAD, **fields: Any) -> RunCreate:
    """A run as a gateway makes it."""
    given: dict[str, Any] = {
        "assistant_id": "agent",
        "user_id": "bench-user-1",
        "model_name": "large",
        "metadata": METADATA,
        "kwargs": KWARGS,
        **fields,
    }
    return RunCreate(run_id=run_id, thread_id=thread_id, **given)


async def seed(to: Repositories) -> None:
    """Fill an empty database."""
    for number in range(USERS):
        await to.users.create_user(
            UserCreate(
                id=f"bench-user-{number}",
                email=f"User.{number}@example.com",
                password_hash="x" * 60,
                system_role="admin" if number == 0 else "user",
                oauth_provider="github",
                oauth_id=f"{number}",
            )
        )
    for number in range(200):
        run_id = f"bench-run-{number}"
        await to.runs.create_run(new_run(run_id, status="running"))
        if number < 190:
            await to.runs.update_run_completion(run_id, status="success", **FIGURES)
    for number in range(40):
        await to.events.append_batch(
            [event(EVENT_THREAD, f"bench-part-{number}", n) for n in range(50)]
        )
    await to.events.append_batch([event("bench-long", "bench-long", n) for n in range(500)])
    for number in range(300):
        await to.threads.create_thread_meta(
            ThreadMetaCreate(
                thread_id=f"bench-thread-{number}",
                user_id=f"bench-user-{number % 10}",
                display_name=f"Conversation {number}",
                metadata={"topic": f"t{number % 3}", "number": number % 30, "project": "p1"},
            )
        )
    for number in range(100):
        await to.feedback.create_feedback(
            FeedbackCreate(
                feedback_id=f"bench-feedback-{number}",
                run_id=f"bench-run-{number % 2}",
                thread_id=RUN_THREAD,
                rating=1 if number % 3 else -1,
                user_id=f"bench-user-{number}",
                comment="Clear and short.",
            )
        )
