"""The thread's latest state after a rollback is the state before the run."""

from __future__ import annotations

import asyncio
import operator
import uuid
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from deerstore.gateway import capture_rollback_point, rollback_to
from deerstore.gateway.checkpoints.copy import has_pending_tasks
from deerstore.gateway.checkpoints.ids import NULL_TASK_ID, checkpoint_id_after
from tests.gateway import graphs

CONFIG = {"configurable": {"thread_id": "t1"}}
FUTURE = "1f999999-0000-6000-8000-000000000000"


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=text)]}


async def seen(graph: Any, config: Any = CONFIG) -> Any:
    """What a user of the thread sees of its state."""
    state = await graph.aget_state(config)
    return (
        state.values,
        state.next,
        sorted(str(task.interrupts and task.interrupts[0].value) for task in state.tasks),
    )


async def ids(saver: Any) -> list[str]:
    return [
        c.checkpoint["id"]
        async for c in saver.alist(CONFIG)
        if not c.config["configurable"]["checkpoint_ns"]
    ]


async def test_values_of_every_form_come_back(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    assert point.usable
    await graph.ainvoke(say("two"), CONFIG)
    undone = await ids(checkpointer)

    restored = await rollback_to(checkpointer, point)

    assert await seen(graph) == before
    history = await ids(checkpointer)
    assert history == [restored, *undone], "the undone checkpoints stay in the history"
    await graph.ainvoke(say("three"), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert [m.id for m in state.values["messages"]] == ["one", "a1", "three", "a2"]
    assert state.values["log"] == ["turn 1", "turn 2"]


async def test_a_rollback_can_be_done_twice_and_after_another_rollback(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    before = await seen(graph)
    for text in ("two", "three"):
        point = await capture_rollback_point(checkpointer, "t1")
        await graph.ainvoke(say(text), CONFIG)
        await rollback_to(checkpointer, point)
        assert await rollback_to(checkpointer, point) != point.checkpoint.checkpoint["id"]
        assert await seen(graph) == before


async def test_a_run_that_wrote_nothing(checkpointer):
    graph = graphs.chat(checkpointer)
    empty = await capture_rollback_point(checkpointer, "t1")
    assert await rollback_to(checkpointer, empty) is None
    await graph.ainvoke(say("one"), CONFIG)
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before


async def test_the_first_run_rolls_back_to_an_empty_thread(checkpointer):
    graph = graphs.chat(checkpointer)
    before = await graph.aget_state(CONFIG)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(say("one"), CONFIG)
    await graph.ainvoke(say("other"), {"configurable": {"thread_id": "t2"}})
    assert await rollback_to(checkpointer, point) is None
    assert await graph.aget_state(CONFIG) == before
    assert before.values == {}
    await graph.ainvoke(say("again"), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert [m.id for m in state.values["messages"]] == ["again", "a1"]
    other = await graph.aget_state({"configurable": {"thread_id": "t2"}})
    assert other.values["log"] == ["turn 1"]


async def test_an_existing_id_in_the_future_does_not_win(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(say("two"), CONFIG)
    newest = await checkpointer.aget_tuple(CONFIG)
    await checkpointer.aput(newest.config, {**newest.checkpoint, "id": FUTURE}, newest.metadata, {})
    restored = await rollback_to(checkpointer, point)
    assert restored > FUTURE
    assert await seen(graph) == before


async def test_a_point_in_the_future_comes_back(checkpointer):
    graph = graphs.chat(checkpointer)
    await graph.ainvoke(say("one"), CONFIG)
    newest = await checkpointer.aget_tuple(CONFIG)
    await checkpointer.aput(
        newest.config,
        {**newest.checkpoint, "id": FUTURE},
        newest.metadata,
        newest.checkpoint["channel_versions"],
    )
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    assert point.checkpoint.checkpoint["id"] == FUTURE
    await graph.aupdate_state(CONFIG, {"note": "changed"})
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before


async def stopped(graph: Any) -> dict[str, str]:
    """The questions that wait, by interrupt id."""
    state = await graph.aget_state(CONFIG)
    return {i.id: i.value for i in state.interrupts}


async def test_an_interrupted_thread_is_interrupted_again(checkpointer):
    ran: list[str] = []
    graph = graphs.asking(checkpointer, ran)
    await graph.ainvoke({"log": ["start"]}, CONFIG)
    # One answer is given already: the branch that asks twice waits at its second question.
    first = next(i for i, value in (await stopped(graph)).items() if value == "first?")
    await graph.ainvoke(Command(resume={first: "A"}), CONFIG)
    before = await seen(graph)
    questions = await stopped(graph)
    assert sorted(map(str, questions.values())) == ["second?", "{'ask': 'once?'}"]

    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(Command(resume=dict.fromkeys(questions, "wrong")), CONFIG)
    assert (await seen(graph)) != before
    await rollback_to(checkpointer, point)

    assert await seen(graph) == before
    ran.clear()
    again = await stopped(graph)
    assert sorted(map(str, again.values())) == sorted(map(str, questions.values()))
    answers = {i: "B" if value == "second?" else "C" for i, value in again.items()}
    await graph.ainvoke(Command(resume=answers), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert sorted(state.values["log"]) == sorted(
        ["start", "twice A B", "once C", "done", "join"]
    ), "the answer from before the run counts, the undone ones do not"
    assert "done" not in ran, "a finished branch does not run again"
    assert state.next == ()


async def test_a_resume_without_an_id_reaches_the_only_question(checkpointer):
    ran: list[str] = []
    graph = graphs.sending(checkpointer, ran)
    await graph.ainvoke({"log": []}, CONFIG)
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(Command(resume="wrong"), CONFIG)
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before
    ran.clear()
    await graph.ainvoke(Command(resume="right"), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert state.values["log"] == ["plan", "worker 1", "worker 2 right", "worker 3"]
    assert ran == ["worker 2"]


@pytest.mark.parametrize("lasting", [False, True], ids=["per run", "lasting"])
async def test_an_interrupt_inside_subgraphs(checkpointer, lasting):
    ran: list[str] = []
    graph = graphs.nested(checkpointer, ran, lasting=lasting)
    await graph.ainvoke({"log": ["start"]}, CONFIG)
    before = await seen(graph)
    assert before[1] == ("middle",)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(Command(resume="wrong"), CONFIG)
    assert (await graph.aget_state(CONFIG)).next == ()
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before
    ran.clear()
    (question,) = await stopped(graph)
    await graph.ainvoke(Command(resume={question: "right"}), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert state.next == ()
    assert state.values["log"][-1] == "ask right"
    assert "ask wrong" not in state.values["log"]
    assert ran == ["ask"], "what the subgraph did before the question is not done again"


async def test_a_subgraph_that_outlives_runs_goes_back_as_well(checkpointer):
    graph = graphs.remembering(checkpointer)
    empty = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke({"log": []}, CONFIG)
    await rollback_to(checkpointer, empty)
    for _ in range(2):
        await graph.ainvoke({"log": []}, CONFIG)
    assert (await graph.aget_state(CONFIG)).values["log"] == ["run 1", "run 2"]
    point = await capture_rollback_point(checkpointer, "t1")
    for _ in range(2):
        await graph.ainvoke({"log": []}, CONFIG)
    await rollback_to(checkpointer, point)
    await rollback_to(checkpointer, point)
    await graph.ainvoke({"log": []}, CONFIG)
    assert (await graph.aget_state(CONFIG)).values["log"] == ["run 1", "run 2", "run 3"]


async def test_a_thread_stopped_before_a_node(checkpointer):
    ran: list[str] = []
    graph = graphs.asking(checkpointer, ran)
    graph.interrupt_before_nodes = ["join"]
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume=dict.fromkeys(await stopped(graph), "A")), CONFIG)
    await graph.ainvoke(Command(resume=dict.fromkeys(await stopped(graph), "A")), CONFIG)
    before = await seen(graph)
    assert before[1] == ("join",)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(None, CONFIG)
    assert (await seen(graph))[1] == ()
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before
    await graph.ainvoke(None, CONFIG)
    assert (await graph.aget_state(CONFIG)).values["log"][-1] == "join"


async def test_a_failed_step_keeps_its_error_and_its_finished_branch(checkpointer):
    ran: list[str] = []
    broken = True

    class Log(TypedDict):
        log: Annotated[list[str], operator.add]

    def good(state: Log) -> dict[str, Any]:
        ran.append("good")
        return {"log": ["good"]}

    async def bad(state: Log) -> dict[str, Any]:
        ran.append("bad")
        await asyncio.sleep(0.05)
        if broken:
            raise ValueError("broken")
        return {"log": ["bad"]}

    builder = StateGraph(Log)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    graph = builder.compile(checkpointer=checkpointer)
    with pytest.raises(ValueError, match="broken"):
        await graph.ainvoke({"log": []}, CONFIG)
    point = await capture_rollback_point(checkpointer, "t1")
    before = await graph.aget_state(CONFIG)
    await graph.ainvoke({"log": ["other"]}, {**CONFIG}) if not broken else None
    broken = False
    await graph.ainvoke(None, CONFIG)
    await rollback_to(checkpointer, point)
    after = await graph.aget_state(CONFIG)
    assert after.next == before.next == ("bad",)
    assert [t.name for t in after.tasks if t.error] == ["bad"]
    ran.clear()
    await graph.ainvoke(None, CONFIG)
    assert (await graph.aget_state(CONFIG)).values["log"] == ["bad", "good"]
    assert ran == ["bad"]


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
async def test_channels_stored_as_changes(checkpointer, turns):
    graph = graphs.delta(checkpointer)
    for turn in range(turns):
        await graph.ainvoke({"items": [f"ask {turn}"]}, CONFIG)
    before = await seen(graph)
    point = await capture_rollback_point(checkpointer, "t1")
    for turn in range(3):
        await graph.ainvoke({"items": [f"undone {turn}"]}, CONFIG)
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before
    await graph.ainvoke({"items": ["next"]}, CONFIG)
    state = await graph.aget_state(CONFIG)
    assert state.values["items"] == [*before[0]["items"], "next", f"answer {turns + 1}"]


async def test_an_interrupt_with_channels_stored_as_changes(checkpointer):
    graph = graphs.delta(checkpointer, ask=True)
    for turn in range(3):
        await graph.ainvoke({"items": [f"ask {turn}"]}, CONFIG)
    before = await seen(graph)
    assert before[1] == ("answer",)
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(Command(resume="wrong"), CONFIG)
    await graph.ainvoke({"items": ["undone"]}, CONFIG)
    await rollback_to(checkpointer, point)
    assert await seen(graph) == before
    await graph.ainvoke(Command(resume="right"), CONFIG)
    assert (await graph.aget_state(CONFIG)).values["items"] == [*before[0]["items"], "answer right"]


async def test_an_update_that_waits_at_the_checkpoint_applies_once(checkpointer):
    ran: list[str] = []
    graph = graphs.sending(checkpointer, ran)
    await graph.ainvoke({"log": []}, CONFIG)
    # A resume saves its update and its answer with the checkpoint; then its process dies.
    head = await checkpointer.aget_tuple(CONFIG)
    await checkpointer.aput_writes(
        head.config, [("note", "updated"), ("log", ["waits"]), ("__resume__", "A")], NULL_TASK_ID
    )
    before = await graph.aget_state(CONFIG)
    assert before.values["note"] == "updated"
    point = await capture_rollback_point(checkpointer, "t1")
    await graph.ainvoke(None, CONFIG)
    await rollback_to(checkpointer, point)
    assert (await graph.aget_state(CONFIG)).values == before.values
    await graph.ainvoke(Command(resume="B", update={"log": ["once"]}), CONFIG)
    state = await graph.aget_state(CONFIG)
    assert state.values["log"].count("once") == 1
    assert state.values["log"].count("waits") == 1
    assert state.values["log"][-2:] == ["worker 2 B", "worker 3"]


async def test_a_thread_in_rest_costs_one_read():
    """Only the thread that is stopped inside a step needs more."""
    saver = InMemorySaver()
    graph = graphs.chat(saver)
    await graph.ainvoke(say("one"), CONFIG)
    point = await capture_rollback_point(saver, "t1")
    assert not has_pending_tasks(point.checkpoint)
    assert not point.subgraphs


class Broken(InMemorySaver):
    async def aget_tuple(self, config):
        raise ConnectionError("gone")


async def test_a_point_that_could_not_be_captured_says_so(caplog):
    point = await capture_rollback_point(Broken(), "t1")
    assert not point.usable
    assert "gone" in point.error
    assert "cannot be rolled back" in caplog.text
    with pytest.raises(RuntimeError, match="cannot be rolled back: ConnectionError: gone"):
        await rollback_to(InMemorySaver(), point)
    with pytest.raises(RuntimeError, match="no point was captured"):
        await rollback_to(InMemorySaver(), None)


async def test_a_thread_that_is_still_written_to_is_not_claimed_to_be_rolled_back():
    saver = InMemorySaver()
    graph = graphs.chat(saver)
    await graph.ainvoke(say("one"), CONFIG)
    point = await capture_rollback_point(saver, "t1")
    put = saver.aput

    async def late(config, checkpoint, metadata, versions):
        stored = await put(config, checkpoint, metadata, versions)
        await put(config, {**checkpoint, "id": checkpoint_id_after(checkpoint["id"])}, metadata, {})
        return stored

    saver.aput = late
    with pytest.raises(RuntimeError, match="still being written to"):
        await rollback_to(saver, point)


@pytest.mark.parametrize(
    "newest",
    [
        FUTURE,
        "1f999999-0000-6fff-bfff-ffffffffffff",
        "1f999999-ffff-6fff-bfff-ffffffffffff",
        "ffffffff-0000-1000-8000-000000000000",
        "f0000000-0000-4fff-8000-000000000000",
        "f0000000-0000-7000-8000-000000000000",
        "F0000000-0000-8000-8000-000000000000",
        None,
    ],
)
def test_the_next_id_is_a_uuid6_that_sorts_behind(newest):
    successor = checkpoint_id_after(newest)
    assert newest is None or successor > newest
    assert uuid.UUID(successor).version == 6
    assert successor < checkpoint_id_after(successor)


def test_no_id_sorts_behind_the_last_one():
    with pytest.raises(ValueError, match="no checkpoint id sorts behind"):
        checkpoint_id_after("ffffffff-ffff-7fff-bfff-ffffffffffff")


async def test_the_functional_api_asks_again(checkpointer):
    """Its tasks run again after a rollback: a checkpoint does not name their functions."""
    from langgraph.func import entrypoint, task

    ran: list[str] = []

    @task
    async def double(number: int) -> int:
        ran.append("double")
        return number * 2

    @entrypoint(checkpointer=checkpointer)
    async def flow(number: int) -> str:
        doubled = await double(number)
        return f"{doubled} {interrupt('sure?')}"

    await flow.ainvoke(2, CONFIG)
    before = await stopped(flow)
    point = await capture_rollback_point(checkpointer, "t1")
    await flow.ainvoke(Command(resume="wrong"), CONFIG)
    await rollback_to(checkpointer, point)
    again = await stopped(flow)
    assert list(again.values()) == list(before.values()) == ["sure?"]
    assert await flow.ainvoke(Command(resume=dict.fromkeys(again, "yes")), CONFIG) == "4 yes"
    assert ran == ["double", "double"]
