"""A branch has the same values, and the next turn continues there."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command

from deerstore.errors import AlreadyExistsError, NotFoundError
from deerstore.gateway import branch_thread, capture_rollback_point, rollback_to
from tests.gateway import graphs
from tests.gateway.test_rollback import CONFIG, FUTURE, say, seen

TARGET = {"configurable": {"thread_id": "t2"}}


async def test_the_latest_state(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    before = await seen(graph)
    await branch_thread(checkpointer, "t1", "t2")
    assert await seen(graph, TARGET) == before
    await graph.ainvoke(say("two"), TARGET)
    state = await graph.aget_state(TARGET)
    assert [m.id for m in state.values["messages"]] == ["one", "a1", "two", "a2"]
    assert await seen(graph) == before


async def test_each_earlier_state(checkpointer):
    graph = graphs.chat(checkpointer)
    for text in ("one", "two"):
        await graph.ainvoke(say(text), CONFIG)
    history = [state async for state in graph.aget_state_history(CONFIG)]
    for number, state in enumerate(history):
        target = {"configurable": {"thread_id": f"branch {number}"}}
        await branch_thread(
            checkpointer,
            "t1",
            f"branch {number}",
            checkpoint_id=state.config["configurable"]["checkpoint_id"],
        )
        branch = await graph.aget_state(target)
        assert branch.values == state.values
        assert branch.next == state.next
        await graph.ainvoke(None if state.next else say("next"), target)
        assert (await graph.aget_state(target)).next == ()
        assert (
            len((await graph.aget_state(target)).values["log"])
            == ({True: len(state.values.get("log", ())) + 1}[True])
        )


async def test_a_branch_of_a_future_state_lives_in_the_present(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    newest = await checkpointer.aget_tuple(CONFIG)
    versions = newest.checkpoint["channel_versions"]
    await checkpointer.aput(
        newest.config, {**newest.checkpoint, "id": FUTURE}, newest.metadata, versions
    )
    before = await seen(graph)
    assert await branch_thread(checkpointer, "t1", "t2") < FUTURE
    assert await seen(graph, TARGET) == before
    await graph.ainvoke(say("two"), TARGET)
    assert (await graph.aget_state(TARGET)).values["count"] == 2


async def test_an_interrupt_can_be_answered_on_both_threads(checkpointer):
    ran: list[str] = []
    graph = graphs.asking(checkpointer, ran)
    await graph.ainvoke({"log": []}, CONFIG)
    before = await seen(graph)
    await branch_thread(checkpointer, "t1", "t2")
    assert await seen(graph, TARGET) == before
    for config, answer in ((TARGET, "B"), (CONFIG, "A")):
        for _ in range(2):
            state = await graph.aget_state(config)
            await graph.ainvoke(Command(resume={i.id: answer for i in state.interrupts}), config)
        state = await graph.aget_state(config)
        assert sorted(state.values["log"]) == [
            "done",
            "join",
            f"once {answer}",
            f"twice {answer} {answer}",
        ]
    assert ran.count("done") == 1


async def test_an_interrupt_of_a_state_in_the_future(checkpointer):
    ran: list[str] = []
    graph = graphs.sending(checkpointer, ran)
    await graph.ainvoke({"log": []}, CONFIG)
    point = await capture_rollback_point(checkpointer, "t1")
    newest = point.checkpoint
    await checkpointer.aput(newest.config, {**newest.checkpoint, "id": FUTURE}, newest.metadata, {})
    await rollback_to(checkpointer, point)
    before = await seen(graph)
    await branch_thread(checkpointer, "t1", "t2")
    assert await seen(graph, TARGET) == before
    ran.clear()
    await graph.ainvoke(Command(resume="B"), TARGET)
    assert ran == ["worker 2"]
    assert (await graph.aget_state(TARGET)).values["log"][2] == "worker 2 B"


async def test_an_answered_interrupt_asks_again_in_a_branch_from_before(checkpointer):
    ran: list[str] = []
    graph = graphs.sending(checkpointer, ran)
    await graph.ainvoke({"log": []}, CONFIG)
    stopped = await graph.aget_state(CONFIG)
    await graph.ainvoke(Command(resume="A"), CONFIG)
    await branch_thread(
        checkpointer, "t1", "t2", checkpoint_id=stopped.config["configurable"]["checkpoint_id"]
    )
    branch = await graph.aget_state(TARGET)
    assert branch.values == (await graph.aget_state(stopped.config)).values
    assert [i.value for i in branch.interrupts] == ["two?"]
    await graph.ainvoke(Command(resume="B"), TARGET)
    assert (await graph.aget_state(TARGET)).values["log"] == [
        "plan",
        "worker 1",
        "worker 2 B",
        "worker 3",
    ]


@pytest.mark.parametrize("lasting", [False, True], ids=["per run", "lasting"])
async def test_an_interrupt_inside_subgraphs(checkpointer, lasting):
    ran: list[str] = []
    graph = graphs.nested(checkpointer, ran, lasting=lasting)
    await graph.ainvoke({"log": ["start"]}, CONFIG)
    await branch_thread(checkpointer, "t1", "t2")
    assert await seen(graph, TARGET) == await seen(graph)
    ran.clear()
    await graph.ainvoke(Command(resume="B"), TARGET)
    assert (await graph.aget_state(TARGET)).values["log"][-1] == "ask B"
    assert ran == ["ask"]


async def test_a_subgraph_that_outlives_runs_comes_along(checkpointer):
    graph = graphs.remembering(checkpointer)
    first = None
    for _ in range(2):
        await graph.ainvoke({"log": []}, CONFIG)
        first = first or await graph.aget_state(CONFIG)
    await branch_thread(checkpointer, "t1", "t2")
    await graph.ainvoke({"log": []}, TARGET)
    assert (await graph.aget_state(TARGET)).values["log"] == ["run 1", "run 2", "run 3"]
    early = {"configurable": {"thread_id": "t3"}}
    await branch_thread(
        checkpointer, "t1", "t3", checkpoint_id=first.config["configurable"]["checkpoint_id"]
    )
    await graph.ainvoke({"log": []}, early)
    assert (await graph.aget_state(early)).values["log"] == ["run 1", "run 2"]


async def test_channels_stored_as_changes(checkpointer):
    graph = graphs.delta(checkpointer)
    for turn in range(6):
        await graph.ainvoke({"items": [f"ask {turn}"]}, CONFIG)
    history = [state async for state in graph.aget_state_history(CONFIG)]
    for number, state in enumerate(history):
        target = {"configurable": {"thread_id": f"branch {number}"}}
        await branch_thread(
            checkpointer,
            "t1",
            f"branch {number}",
            checkpoint_id=state.config["configurable"]["checkpoint_id"],
        )
        branch = await graph.aget_state(target)
        assert branch.values == state.values
        if not state.next:
            await graph.ainvoke({"items": ["next"]}, target)
            after = (await graph.aget_state(target)).values["items"]
            assert after[: len(state.values["items"]) + 1] == [*state.values["items"], "next"]


async def test_what_cannot_be_branched(checkpointer):
    graph = graphs.chat(checkpointer)
    with pytest.raises(NotFoundError, match="t1"):
        await branch_thread(checkpointer, "t1", "t2")
    await graph.ainvoke(say("one"), CONFIG)
    with pytest.raises(NotFoundError, match="1f000000"):
        await branch_thread(
            checkpointer, "t1", "t2", checkpoint_id="1f000000-0000-6000-8000-000000000000"
        )
    await branch_thread(checkpointer, "t1", "t2")
    before: Any = await seen(graph, TARGET)
    with pytest.raises(AlreadyExistsError, match="t2"):
        await branch_thread(checkpointer, "t1", "t2")
    assert await seen(graph, TARGET) == before
