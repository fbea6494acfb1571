"""The second process: what came back, surface by surface, and the end of the conversation."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

import deerstore
from deerstore.repositories import (
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from examples.demo.agent import AFTER, build_agent
from examples.demo.turns import Conversation, Names

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from deerstore.persistence import AppPersistence


class Report:
    """Prints findings, and remembers those that are not what they must be."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def line(self, surface: str, text: str, **claims: bool) -> None:
        """One finding about a surface, with the claims that make it true."""
        wrong = [name.replace("_", " ") for name, holds in claims.items() if not holds]
        self.failures += [f"{surface}: {name}" for name in wrong]
        print(f"  {'LOST' if wrong else 'back':<5} {surface:<13} {text}", flush=True)


async def main(url: str, token: str) -> int:
    """Show what the database at `url` kept, finish the conversation, and count what is missing."""
    names, report = Names(token), Report()
    async with deerstore.open(url) as persistence:
        agent = build_agent(persistence, AFTER)
        conversation = Conversation(persistence, agent, names)
        await _show_graph(persistence, agent, conversation.config, names, report)
        await _show_tables(persistence, names, report)

        print("\nThe human says yes, and the second process finishes the turn:", flush=True)
        async with persistence.transaction() as session:
            # The run's task died with its process: that is the one thing no storage brings back.
            await build_run_repository(session).update_run_status(
                names.run(2), "error", error="the worker died"
            )
        fresh = await conversation.turn(3, Command(resume="yes"), follows=2)
        await conversation.finish(3, fresh)
        await _show_end(persistence, fresh, names, report)
    for failure in report.failures:
        print(f"not as it should be: {failure}", file=sys.stderr)
    return min(len(report.failures), 1)


async def _show_graph(
    persistence: AppPersistence,
    agent: CompiledStateGraph[Any, Any, Any, Any],
    config: dict[str, Any],
    names: Names,
    report: Report,
) -> None:
    state = await agent.aget_state(config)
    messages = state.values.get("messages", [])
    asked = [interrupt.value for interrupt in state.interrupts]
    report.line(
        "checkpointer",
        f"{len(messages)} messages, and an open question: {asked}",
        six_messages=len(messages) == 6,
        the_open_question=asked == [{"question": "Book 3 days in Lisbon?"}],
        the_tool_result="sunny" in str(messages[2].content) if len(messages) > 2 else False,
    )
    item = await persistence.store.aget((names.user, "preferences"), "units")
    report.line(
        "Store",
        f"what the agent remembers: {item.value if item else None}",
        the_item=item is not None and item.value == {"value": "metric"},
    )


async def _show_tables(persistence: AppPersistence, names: Names, report: Report) -> None:
    database = persistence.database
    runs = await build_run_repository(database).list_runs_by_thread(names.thread)
    statuses = {run.run_id: run.status for run in runs}
    tokens = {run.run_id: run.total_tokens for run in runs}
    report.line(
        "runs",
        f"first {statuses.get(names.run(1))} with {tokens.get(names.run(1))} tokens, "
        f"second {statuses.get(names.run(2))} when the process died",
        both_runs=statuses == {names.run(1): "success", names.run(2): "running"},
        the_tokens=tokens.get(names.run(1)) == 140,
    )
    events = await build_run_event_repository(database).list_messages(names.thread)
    numbers = [event.seq for event in events]
    report.line(
        "run events",
        f"{len(events)} messages, numbered {numbers}",
        no_gap=numbers == [1, 2, 3, 4, 5, 6],
        their_content=[event.content["type"] for event in events]
        == ["human", "ai", "tool", "ai", "human", "ai"],
    )
    found = await build_thread_meta_repository(database).search_threads(
        metadata={"topic": "travel", "days": 3}, user_id=names.user
    )
    report.line(
        "threads_meta",
        f"found by its metadata: {[thread.display_name for thread in found]}",
        the_thread=[thread.thread_id for thread in found] == [names.thread],
    )
    feedback = await build_feedback_repository(database).list_feedback_by_run(names.run(1))
    report.line(
        "feedback",
        f"{[(each.rating, each.comment) for each in feedback]}",
        the_rating=[(each.rating, each.comment) for each in feedback] == [(1, "quick ☀️")],
    )
    user = await build_user_repository(database).get_user_by_email(names.email.upper())
    report.line(
        "users",
        f"found whatever the letter case: {user.email if user else None}",
        the_user=user is not None and user.email == names.email,
    )


async def _show_end(
    persistence: AppPersistence, fresh: list[Any], names: Names, report: Report
) -> None:
    answer = str(fresh[-1].content) if fresh else ""
    report.line("agent", answer, the_answer=answer.startswith("Booked: three days"))
    database = persistence.database
    run = await build_run_repository(database).get_run(names.run(3))
    report.line(
        "runs",
        f"third {run.status if run else None}, after the second",
        the_third_run=run is not None
        and (run.status, run.follow_up_to_run_id) == ("success", names.run(2)),
    )
    events = await build_run_event_repository(database).list_messages(names.thread, after_seq=6)
    numbers = [event.seq for event in events]
    report.line("run events", f"go on at {numbers}", the_numbers=numbers == [7, 8])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(os.environ["DEMO_URL"], sys.argv[1])))
