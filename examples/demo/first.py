"""The first process: two turns, then it waits for an answer that it does not live to see."""

from __future__ import annotations

import asyncio
import os
import sys

import deerstore
from deerstore.repositories import (
    FeedbackCreate,
    ThreadMetaCreate,
    UserCreate,
    build_feedback_repository,
    build_thread_meta_repository,
    build_user_repository,
)
from examples.demo.agent import BEFORE, FIRST_QUESTION, SECOND_QUESTION, build_agent
from examples.demo.turns import Conversation, Names

#: The line that tells the parent that it may kill this process.
WAITING = "waiting for the human"


async def main(url: str, token: str) -> None:
    """Hold two turns on the database at `url`, and wait for ever."""
    names = Names(token)
    async with deerstore.open(url) as persistence:
        async with persistence.transaction() as session:
            await build_user_repository(session).create_user(
                UserCreate(id=names.user, email=names.email)
            )
            await build_thread_meta_repository(session).create_thread_meta(
                ThreadMetaCreate(
                    thread_id=names.thread,
                    user_id=names.user,
                    display_name="A trip to Lisbon",
                    metadata={"topic": "travel", "days": 3},
                )
            )
        await persistence.store.aput((names.user, "preferences"), "units", {"value": "metric"})

        conversation = Conversation(persistence, build_agent(persistence, BEFORE), names)
        fresh = await conversation.turn(1, {"messages": [FIRST_QUESTION]})
        await conversation.finish(1, fresh)
        async with persistence.transaction() as session:
            await build_feedback_repository(session).create_feedback(
                FeedbackCreate(
                    feedback_id=f"{names.run(1)}-feedback",
                    run_id=names.run(1),
                    thread_id=names.thread,
                    user_id=names.user,
                    rating=1,
                    comment="quick ☀️",
                )
            )
        await conversation.turn(2, {"messages": [SECOND_QUESTION]})
        print(WAITING, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(os.environ["DEMO_URL"], sys.argv[1]))
