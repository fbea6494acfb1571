"""What the journal writes down of real graphs, whichever way they are run."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
import uuid
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from deerstore.gateway import RunJournal
from tests.gateway.models import USAGE, EventStore, Model, StreamingModel, answer


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]


async def run(way: str, graph: Any, state: Any, config: dict[str, Any]) -> None:
    """Run a graph in one of the four ways; the synchronous ones off the loop."""
    if way == "invoke":
        await asyncio.to_thread(graph.invoke, state, config)
    elif way == "ainvoke":
        await graph.ainvoke(state, config)
    elif way == "stream":
        await asyncio.to_thread(lambda: list(graph.stream(state, config, stream_mode="messages")))
    else:
        async for _ in graph.astream(state, config, stream_mode=["messages", "values"]):
            pass


HIDDEN = {"hide_from_ui": True}
ASK = {"messages": [HumanMessage("x")]}
WAYS = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


def journal_of(store: EventStore, **options: Any) -> RunJournal:
    return RunJournal("r1", "t1", store, **options)


def invariants(journal: RunJournal) -> dict[str, Any]:
    done = journal.completion()
    by_model = sum(m["total_tokens"] for m in done["token_usage_by_model"].values())
    by_caller = done["lead_agent_tokens"] + done["subagent_tokens"] + done["middleware_tokens"]
    assert by_model == by_caller == done["total_tokens"]
    return done


def by_caller(done: dict[str, Any]) -> tuple[int, int, int]:
    return done["lead_agent_tokens"], done["subagent_tokens"], done["middleware_tokens"]


def node(name: str, model: Any, tags: list[str] | None = None) -> tuple[str, Any]:
    """A node in both colours that asks a model."""
    from langchain_core.runnables import RunnableLambda

    def call(state: State, config: Any) -> State:
        return {"messages": [model.invoke(state["messages"], {**config, "tags": tags or []})]}

    async def acall(state: State, config: Any) -> State:
        return {
            "messages": [await model.ainvoke(state["messages"], {**config, "tags": tags or []})]
        }

    return name, RunnableLambda(call, afunc=acall)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def move(where: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Move."""
    return Command(
        update={
            "messages": [ToolMessage(f"moved {where}", tool_call_id=tool_call_id)],
            "log": [where],
        }
    )


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def agent(model: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node(*node("model", model))
    graph.add_node("tools", ToolNode([add, move, fail], handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


@WAYS
@pytest.mark.parametrize("kind", [Model, StreamingModel])
async def test_an_agent_with_tools(way, kind):
    model = kind(
        results=[
            answer(
                "let me see",
                tool_calls=[call("add", "c1", a=1, b=2), call("move", "c2", where="x")],
            ),
            answer("and then", tool_calls=[call("fail", "c3")]),
            answer("done"),
        ]
    )
    store = EventStore()
    journal = journal_of(store, user_id="u1")
    await run(
        way,
        agent(model),
        {"messages": [SystemMessage("be nice"), HumanMessage("hi", id="h1")]},
        {"callbacks": [journal]},
    )
    await journal.flush()

    types = store.types()
    assert types[:3] == ["run.start", "llm.human.input", "llm.ai.response"]
    assert sorted(types[3:5]) == ["llm.tool.result", "llm.tool.result"]
    assert types[5:] == ["llm.ai.response", "llm.tool.result", "llm.ai.response", "run.end"]
    assert {row["content"]["type"] for row in store.of("llm.ai.response")} == {"ai"}
    assert [row["content"]["content"] for row in store.of("llm.ai.response")] == [
        "let me see",
        "and then",
        "done",
    ]
    results = {
        row["content"]["tool_call_id"]: row["content"] for row in store.of("llm.tool.result")
    }
    assert results["c1"]["content"] == "3"
    assert results["c2"]["content"] == "moved x"
    assert "no such thing" in results["c3"]["content"]
    assert results["c3"]["status"] == "error"
    for row in store.rows:
        assert (row["thread_id"], row["run_id"], row["user_id"]) == ("t1", "r1", "u1")
    for index, row in enumerate(store.of("llm.ai.response"), 1):
        assert row["category"] == "message"
        metadata = row["metadata"]
        assert metadata["llm_call_index"] == index
        assert metadata["caller"] == "lead_agent"
        assert metadata["usage"] == USAGE
        assert isinstance(metadata["latency_ms"], int)
    categories = {row["event_type"]: row["category"] for row in store.rows}
    assert categories == {
        "run.start": "trace",
        "run.end": "outputs",
        "llm.human.input": "message",
        "llm.ai.response": "message",
        "llm.tool.result": "message",
    }
    assert invariants(journal) == {
        "total_input_tokens": 30,
        "total_output_tokens": 15,
        "total_tokens": 45,
        "llm_call_count": 3,
        "lead_agent_tokens": 45,
        "subagent_tokens": 0,
        "middleware_tokens": 0,
        "token_usage_by_model": {
            "m1": {"input_tokens": 30, "output_tokens": 15, "total_tokens": 45}
        },
        "message_count": 7,
        "last_ai_message": "done",
        "first_human_message": "hi",
    }
    stamps = [row["created_at"] for row in store.rows]
    assert stamps == sorted(set(stamps))


@WAYS
async def test_parallel_branches_and_a_subgraph(way):
    def slow(text: str, delay: float, tokens: int) -> Model:
        usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
        return Model(
            results=[answer(text, usage_metadata=usage, response_metadata={"model": f"m-{text}"})],
            delay=delay,
        )

    inner = StateGraph(State)
    inner.add_node(*node("think", slow("inner", 0.03, 7), ["subagent:research"]))
    inner.add_edge(START, "think")
    graph = StateGraph(State)
    graph.add_node(*node("a", slow("a", 0.09, 1)))
    graph.add_node(*node("b", slow("b", 0.06, 2), ["middleware:title"]))
    graph.add_node("c", inner.compile())
    for name in "abc":
        graph.add_edge(START, name)
    store = EventStore()
    journal = journal_of(store)
    await run(
        way,
        graph.compile(),
        {"messages": [HumanMessage("hi")]},
        {"callbacks": [journal], "tags": ["lead_agent"]},
    )
    await journal.flush()
    assert store.types().count("run.start") == store.types().count("run.end") == 1
    answers = store.of("llm.ai.response")
    assert [r["content"]["content"] for r in answers] == ["inner", "b", "a"], (
        "in the order they ended"
    )
    assert sorted(r["metadata"]["llm_call_index"] for r in answers) == [1, 2, 3]
    latency = {r["content"]["content"]: r["metadata"]["latency_ms"] for r in answers}
    assert latency["a"] >= 85
    assert latency["inner"] < latency["a"]
    callers = {r["content"]["content"]: r["metadata"]["caller"] for r in answers}
    assert callers == {"a": "lead_agent", "b": "middleware:title", "inner": "subagent:research"}
    done = invariants(journal)
    assert (done["lead_agent_tokens"], done["subagent_tokens"], done["middleware_tokens"]) == (
        2,
        8,
        3,
    )
    assert set(done["token_usage_by_model"]) == {"m-a", "m-b", "m-inner"}
    assert done["last_ai_message"] == "a"
    assert done["message_count"] == 3, "the title's answer is not part of the conversation"


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
@pytest.mark.parametrize("parallel", [1, 3])
async def test_a_cancel_in_mid_stream_leaves_what_was_said(way, parallel):
    model = StreamingModel(results=[answer("one two three four five six seven")], pause=0.02)
    graph = StateGraph(State)
    for number in range(parallel):
        graph.add_node(*node(f"n{number}", model))
        graph.add_edge(START, f"n{number}")
    store = EventStore()
    journal = journal_of(store)

    async def go() -> None:
        # Streaming modes make the graph's models stream as well.
        if way == "ainvoke":
            async for _ in graph.compile().astream(state, config, stream_mode="messages"):
                pass
        else:
            await run("astream", graph.compile(), state, config)

    state, config = {"messages": [HumanMessage("hi")]}, {"callbacks": [journal]}
    task = asyncio.create_task(go())
    await asyncio.sleep(0.075)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await journal.flush()
    partial = store.of("llm.ai.response")
    assert len(partial) == parallel
    for row in partial:
        assert row["metadata"]["interrupted"] is True
        assert row["content"]["additional_kwargs"]["interrupted"] is True
        assert row["content"]["type"] == "ai"
        assert row["content"]["content"].startswith("one ")
        assert "seven" not in row["content"]["content"]
    assert store.types()[-1] == "run.error"
    assert store.types().count("run.error") == 1
    assert "run.end" not in store.types()
    assert journal.completion()["last_ai_message"].startswith("one ")


async def test_a_model_that_streams_events_is_cut_off_as_well():
    store = EventStore()
    journal = journal_of(store)
    call_id = uuid.uuid4()
    journal.on_chat_model_start({}, [[HumanMessage("x")]], run_id=call_id, tags=["subagent:a"])
    for event in (
        {"event": "message-start"},
        {"event": "content-block-delta", "delta": {"type": "text-delta", "text": "Hel"}},
        {"event": "content-block-delta", "delta": {"type": "reasoning-delta", "reasoning": "hm"}},
        {"event": "content-block-delta", "delta": {"type": "text-delta", "text": "lo"}},
    ):
        journal.on_stream_event(event, run_id=call_id)
    journal.on_llm_error(asyncio.CancelledError(), run_id=call_id)
    journal.on_llm_error(asyncio.CancelledError(), run_id=call_id)
    await journal.flush()
    (partial,) = store.rows
    assert partial["content"]["content"] == "Hello"
    assert partial["metadata"]["interrupted"] is True
    assert partial["metadata"]["caller"] == "subagent:a"


async def test_a_cancelled_call_that_had_said_nothing_leaves_nothing():
    store = EventStore()
    journal = journal_of(store)
    task = asyncio.create_task(
        Model(results=[answer()], delay=1).ainvoke("x", {"callbacks": [journal]})
    )
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await journal.flush()
    assert store.types() == ["llm.human.input"]


async def test_a_failing_branch_cuts_off_the_others():
    async def bad(state: State) -> State:
        await asyncio.sleep(0.07)
        raise ValueError("boom")

    graph = StateGraph(State)
    graph.add_node(*node("talk", StreamingModel(results=[answer("a b c d e f g h i")], pause=0.02)))
    graph.add_node("bad", bad)
    graph.add_edge(START, "talk")
    graph.add_edge(START, "bad")
    store = EventStore()
    journal = journal_of(store)
    with pytest.raises(ValueError, match="boom"):
        await run("astream", graph.compile(), ASK, {"callbacks": [journal]})
    await journal.flush()
    (partial,) = store.of("llm.ai.response")
    assert partial["metadata"]["interrupted"] is True
    (error,) = store.of("run.error")
    assert error["content"] == "boom"
    assert error["category"] == "error"
    assert error["metadata"] == {"error_type": "ValueError"}


@WAYS
async def test_a_failed_call_is_a_trace(way):
    graph = StateGraph(State)
    graph.add_node(*node("n", Model(results=[RuntimeError("rate limit")])))
    graph.add_edge(START, "n")
    store = EventStore()
    journal = journal_of(store)
    with pytest.raises(RuntimeError, match="rate limit"):
        await run(way, graph.compile(), ASK, {"callbacks": [journal]})
    await journal.flush()
    assert store.types() == ["run.start", "llm.human.input", "llm.error", "run.error"]
    (failed,) = store.of("llm.error")
    assert failed["category"] == "trace"
    assert failed["content"] == "rate limit"
    assert failed["metadata"]["llm_call_index"] == 1
    assert failed["metadata"]["error_type"] == "RuntimeError"


async def test_a_stream_that_breaks_is_an_error_and_no_answer():
    graph = StateGraph(State)
    graph.add_node(*node("n", StreamingModel(results=[answer("a b c d")], fail_after=2)))
    graph.add_edge(START, "n")
    store = EventStore()
    journal = journal_of(store)
    with pytest.raises(RuntimeError, match="broken stream"):
        await run("astream", graph.compile(), ASK, {"callbacks": [journal]})
    await journal.flush()
    assert "llm.ai.response" not in store.types()
    assert store.types().count("llm.error") == 1


async def test_a_run_that_stops_at_an_interrupt_ends():
    from langgraph.checkpoint.memory import InMemorySaver

    graph = StateGraph(State)
    graph.add_node("ask", lambda state: {"log": [interrupt("sure?")]})
    graph.add_edge(START, "ask")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    for state, expected in (({"log": []}, []), (Command(resume="yes"), ["yes"])):
        store = EventStore()
        journal = journal_of(store)
        await compiled.ainvoke(state, {**config, "callbacks": [journal]})
        await journal.flush()
        assert store.types() == ["run.start", "run.end"]
        assert store.rows[-1]["content"]["log"] == expected


# -- whose words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([HumanMessage("first"), AIMessage("x"), HumanMessage("newest")], "newest"),
        (
            [HumanMessage("said"), HumanMessage("x", additional_kwargs={"hide_from_ui": True})],
            "said",
        ),
        ([HumanMessage("said"), HumanMessage("x", name="summary")], "said"),
        (
            [
                HumanMessage("Here is a summary", additional_kwargs={"lc_source": "summarization"}),
                HumanMessage("said"),
            ],
            "said",
        ),
        (
            [
                HumanMessage(
                    [
                        {"type": "text", "text": "look: "},
                        {"type": "image_url", "image_url": {"url": "https://x"}},
                        {"type": "text", "text": "this"},
                    ]
                )
            ],
            "look: this",
        ),
        ([HumanMessage(["a", "b"])], "ab"),
        ([SystemMessage("x")], None),
    ],
)
async def test_the_users_words_are_the_newest_visible_ones(messages, expected):
    store = EventStore()
    journal = journal_of(store)
    model = Model(results=[answer()])
    config = {"callbacks": [journal]}
    await model.ainvoke([HumanMessage("make a title")], {**config, "tags": ["middleware:title"]})
    await model.ainvoke([HumanMessage("do this")], {**config, "tags": ["subagent:x"]})
    await model.ainvoke(messages, config)
    await model.ainvoke([*messages, HumanMessage("later")], config)
    await journal.flush()
    assert journal.completion()["first_human_message"] == expected
    assert len(store.of("llm.human.input")) == (expected is not None)


async def test_the_last_answer_is_the_lead_agents_with_text():
    journal = journal_of(EventStore())
    config = {"callbacks": [journal]}
    await Model(results=[answer("lead")]).ainvoke("x", config)
    await Model(results=[answer([{"type": "text", "text": "in a list"}])]).ainvoke("x", config)
    await Model(results=[answer("", tool_calls=[call("add", "c1")])]).ainvoke("x", config)
    await Model(results=[answer("sub")]).ainvoke("x", {**config, "tags": ["subagent:y"]})
    await Model(results=[answer("mid")]).ainvoke(
        "x", {**config, "tags": ["lead_agent", "middleware:y"]}
    )
    hidden = answer("hidden", additional_kwargs={"hide_from_ui": True})
    await Model(results=[hidden]).ainvoke("x", config)
    assert journal.completion()["last_ai_message"] == "in a list"
    long = answer("x" * 5000)
    await Model(results=[long]).ainvoke("y" * 5000, config)
    done = journal.completion()
    assert len(done["last_ai_message"]) == 2000
    await journal.flush()


# -- tokens --------------------------------------------------------------------------------------


def bare(**response_metadata: Any) -> AIMessage:
    return AIMessage("hello", response_metadata=response_metadata)


def openai(read: int, written: int, *total: int | None) -> dict[str, Any]:
    counts: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written}
    return {**counts, "total_tokens": total[0]} if total else counts


@pytest.mark.parametrize(
    ("results", "llm_output", "expected", "model"),
    [
        ([answer()], None, (10, 5, 15), "m1"),
        ([bare(token_usage=openai(3, 4, 7), model="m2")], None, (3, 4, 7), "m2"),
        ([bare(usage={"input_tokens": 3, "output_tokens": 4})], None, (3, 4, 7), "unknown"),
        ([bare()], {"token_usage": openai(1, 2)}, (1, 2, 3), "unknown"),
        ([bare(model_name="m1")], {"token_usage": openai(1, 2, None)}, (1, 2, 3), "m1"),
        ([answer()], {"token_usage": openai(100, 100)}, (10, 5, 15), "m1"),
        ([[answer(), answer("second")]], None, (20, 10, 30), "m1"),
        (
            [answer(usage_metadata={**USAGE, "input_token_details": {"cache_read": 9}})],
            None,
            (10, 5, 15),
            "m1",
        ),
        ([answer(usage_metadata={**USAGE, "total_tokens": 25})], None, (10, 5, 25), "m1"),
        ([bare(model_name=" ")], None, (0, 0, 0), None),
    ],
)
@WAYS
async def test_usage_is_found_where_providers_put_it(way, results, llm_output, expected, model):
    graph = StateGraph(State)
    graph.add_node(*node("n", Model(results=results, llm_output=llm_output)))
    graph.add_edge(START, "n")
    store = EventStore()
    journal = journal_of(store)
    await run(way, graph.compile(), ASK, {"callbacks": [journal]})
    await journal.flush()
    done = invariants(journal)
    assert (
        done["total_input_tokens"],
        done["total_output_tokens"],
        done["total_tokens"],
    ) == expected
    assert list(done["token_usage_by_model"]) == ([model] if model else [])
    assert done["llm_call_count"] == 1
    assert len(store.of("llm.ai.response")) == 1
    usage = store.of("llm.ai.response")[0]["metadata"]["usage"]
    assert usage == (dict(zip(USAGE, expected, strict=True)) if any(expected) else None)


def test_a_call_counts_once_however_often_it_is_delivered():
    journal = journal_of(EventStore())
    call_id = uuid.uuid4()
    result = LLMResult(generations=[[ChatGeneration(message=answer())]])
    for _ in range(2):
        journal.on_chat_model_start({}, [[HumanMessage("x")]], run_id=call_id, tags=[])
    for _ in range(3):
        journal.on_llm_end(result, run_id=call_id)
    journal.on_chat_model_start({}, [[HumanMessage("x")]], run_id=call_id, tags=[])
    journal.on_llm_error(ValueError("late"), run_id=call_id)
    # An end without a start was a call as well.
    journal.on_llm_end(result, run_id=uuid.uuid4(), tags=["subagent:x"])
    done = invariants(journal)
    assert done["llm_call_count"] == 2
    assert done["total_tokens"] == 30
    assert journal.pending_events == 3
    assert (
        journal.record_external_llm_usage_records(
            [{"source_run_id": str(call_id), "caller": "subagent:x", "total_tokens": 9}]
        )
        == 0
    ), "it was observed here"


def test_subagents_report_their_usage_once():
    journal = journal_of(EventStore())
    records = [
        {
            "source_run_id": "s1",
            "caller": "subagent:a",
            "model_name": "m",
            "input_tokens": 1,
            "output_tokens": 2,
            "total_tokens": 3,
        },
        {
            "source_run_id": "s2",
            "caller": "subagent:a",
            "model_name": None,
            "input_tokens": 5,
            "output_tokens": None,
            "total_tokens": 0,
        },
        {"source_run_id": "s3", "caller": "middleware:b", "model_name": "m", "total_tokens": 7},
        {"source_run_id": "s4", "caller": "lead_agent", "model_name": "m", "input_tokens": 1},
        {"source_run_id": None, "total_tokens": 100},
        {"source_run_id": "s5", "total_tokens": "many"},
    ]
    assert journal.record_external_llm_usage_records(records) == 4
    assert journal.record_external_llm_usage_records(records) == 0
    done = invariants(journal)
    assert (done["lead_agent_tokens"], done["subagent_tokens"], done["middleware_tokens"]) == (
        1,
        8,
        7,
    )
    assert done["token_usage_by_model"]["unknown"]["total_tokens"] == 5
    assert done["llm_call_count"] == 0


async def test_a_model_that_is_no_chat_model():
    store = EventStore()
    journal = journal_of(store)
    await FakeListLLM(responses=["plain text"]).ainvoke("x", {"callbacks": [journal]})
    await journal.flush()
    assert store.rows[0]["content"]["content"] == "plain text"
    assert journal.completion()["last_ai_message"] == "plain text"


# -- tools, middleware, outputs ------------------------------------------------------------------


async def test_a_result_is_recorded_once_however_it_reaches_the_model():
    """A node that calls a tool by hand builds the message itself."""
    store = EventStore()
    journal = journal_of(store)

    async def tools(state: State, config) -> State:
        value = await add.ainvoke({"a": 1, "b": 2}, config)
        return {"messages": [ToolMessage(f"= {value}", tool_call_id="c1")]}

    model = Model(results=[answer("", tool_calls=[call("add", "c1", a=1, b=2)]), answer("done")])
    graph = StateGraph(State)
    graph.add_node(*node("model", model))
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    await run("ainvoke", graph.compile(), ASK, {"callbacks": [journal]})
    await journal.flush()
    assert [r["content"]["content"] for r in store.of("llm.tool.result")] == ["= 3"]


async def test_a_command_contributes_its_tool_messages_only():
    store = EventStore()
    journal = journal_of(store)
    hidden = ToolMessage("b", tool_call_id="c2", additional_kwargs={"hide_from_ui": True})
    for update in (
        {"messages": [ToolMessage("a", tool_call_id="c1"), HumanMessage("not this")]},
        [("messages", [hidden])],
        {"messages": ToolMessage("c", tool_call_id="c3")},
        {"messages": [{"role": "tool", "content": "d", "tool_call_id": "c4"}]},
        None,
    ):
        journal.on_tool_end(Command(update=update), run_id=uuid.uuid4())
    journal.on_tool_end("plain", run_id=uuid.uuid4())
    journal.on_tool_end([ToolMessage("e", tool_call_id="c5")], run_id=uuid.uuid4())
    journal.on_tool_end(ToolMessage("again", tool_call_id="c1"), run_id=uuid.uuid4())
    await journal.flush()
    assert [r["content"]["content"] for r in store.rows] == ["a", "b", "c", "d", "e"]
    assert journal.completion()["message_count"] == 4


async def test_middleware_events():
    store = EventStore()
    journal = journal_of(store)
    journal.record_middleware(
        "guard", name="Guard", hook="before_model", action="block", changes={"a": 1}
    )
    journal.record_middleware("x" * 40, name="Long", hook="h", action="a")
    await journal.flush()
    first, second = store.rows
    assert (first["event_type"], first["category"]) == ("middleware:guard", "middleware")
    assert first["content"] == {
        "name": "Guard",
        "hook": "before_model",
        "action": "block",
        "changes": {"a": 1},
    }
    assert len(second["event_type"]) == 32


async def test_outputs_are_bounded_and_say_what_was_cut():
    store = EventStore()
    journal = journal_of(store, max_output_bytes=5_000)
    root = uuid.uuid4()
    journal.on_chain_start({}, {}, run_id=root)
    messages = [HumanMessage(f"message {i} {'x' * 200}", id=str(i)) for i in range(200)]
    journal.on_chain_end(
        {"messages": messages, "title": "kept", "blob": "é" * 10_000, "nested": {"a": "y" * 9_000}},
        run_id=root,
    )
    await journal.flush()
    row = store.of("run.end")[0]
    import json

    assert len(json.dumps(row["content"], ensure_ascii=False).encode()) <= 5_100
    assert row["content"]["title"] == "kept"
    assert row["content"]["messages"][-1]["id"] == "199"
    assert row["content"]["nested"] is None
    assert row["content"]["blob"].startswith("éé")
    assert row["metadata"]["content_truncated"] is True
    assert row["metadata"]["original_byte_length"] > 50_000
    assert set(row["metadata"]["cut"]) == {"messages", "blob", "nested"}


async def test_small_outputs_are_kept_whole():
    store = EventStore()
    journal = journal_of(store)
    root = uuid.uuid4()
    journal.on_chain_start({"name": "graph"}, {}, run_id=root)
    journal.on_chain_start({}, {}, run_id=uuid.uuid4())
    journal.on_chain_end({"a": {1, 2}, "__pregel_x": 1}, run_id=root)
    journal.on_chain_end({"a": 1}, run_id=root)
    journal.on_chain_error(ValueError("late"), run_id=root)
    await journal.flush()
    assert [(r["event_type"], r["content"], r["metadata"]) for r in store.rows] == [
        ("run.start", "", {"name": "graph"}),
        ("run.end", {"a": [1, 2]}, {}),
    ]


def test_callbacks_from_many_threads():
    journal = journal_of(EventStore())

    def work() -> None:
        for _ in range(100):
            call_id = uuid.uuid4()
            journal.on_chat_model_start({}, [[HumanMessage("x")]], run_id=call_id, tags=[])
            journal.on_llm_new_token("x", run_id=call_id)
            journal.on_llm_end(
                LLMResult(generations=[[ChatGeneration(message=answer(id=str(call_id)))]]),
                run_id=call_id,
            )

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = invariants(journal)
    assert done["llm_call_count"] == 800
    assert done["total_tokens"] == 800 * 15
    assert journal.pending_events == 801
    start = time.monotonic()
    store = journal._buffer._store
    asyncio.run(journal.flush())
    assert time.monotonic() - start < 5
    assert sorted(r["metadata"]["llm_call_index"] for r in store.of("llm.ai.response")) == list(
        range(1, 801)
    )
    assert [r["created_at"] for r in store.rows] == sorted({r["created_at"] for r in store.rows})
