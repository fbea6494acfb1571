"""The journal over the real event store: cancelled at any moment, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import random

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph

from deerstore.gateway import RunJournal, StorageRunEventStore
from tests.gateway.models import Model, answer
from tests.gateway.test_journal import WAYS, State, invariants, node, run


@pytest.mark.parametrize("seed", range(2))
async def test_cancelled_writes_are_settled_by_a_look(persistence, seed):
    chance = random.Random(seed)
    events = StorageRunEventStore(persistence.session_factory)
    journal = RunJournal("r1", "t1", events, flush_threshold=10**6)
    cancelled = 0
    for number in range(60):
        journal.record_middleware("m", name="n", hook="h", action="a", changes=number)
        task = asyncio.create_task(journal.flush())
        await asyncio.sleep(chance.random() * 0.004)
        target = chance.choice([task, *journal._buffer._tasks])
        cancelled += target.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await journal.flush()
    rows = await events.list_events("t1", "r1", limit=1000, after_seq=0, user_id=None)
    assert [row["content"]["changes"] for row in rows] == list(range(60))
    assert [row["seq"] for row in rows] == list(range(1, 61))
    assert cancelled > 0
    assert not journal.rejected_events


@WAYS
async def test_three_parallel_branches_in_the_database(persistence, way):
    events = StorageRunEventStore(persistence.session_factory)
    journal = RunJournal("r1", "t1", events, flush_threshold=2)
    graph = StateGraph(State)
    for number in range(3):
        model = Model(results=[answer(f"n{number}")], delay=0.01 * number)
        graph.add_node(*node(f"n{number}", model))
        graph.add_edge(START, f"n{number}")
    state = {"messages": [HumanMessage("hi", id="h")]}
    await run(way, graph.compile(), state, {"callbacks": [journal]})
    await journal.flush()
    rows = await events.list_events("t1", "r1", after_seq=0, user_id=None)
    assert [row["event_type"] for row in rows] == [
        "run.start",
        "llm.human.input",
        *["llm.ai.response"] * 3,
        "run.end",
    ]
    assert [row["seq"] for row in rows] == list(range(1, 7))
    done = invariants(journal)
    assert (done["total_tokens"], done["message_count"]) == (45, 4)
    messages = await events.list_messages("t1", user_id=None)
    words = [m["content"]["content"] for m in messages]
    # Which branch is answered first is up to the machine.
    assert (words[0], sorted(words[1:])) == ("hi", ["n0", "n1", "n2"])
    assert journal.pending_events == 0
