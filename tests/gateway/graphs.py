"""Small graphs with everything a rollback has to bring back."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    data: dict[str, Any]
    count: int
    note: str
    empty: str | None


def chat(checkpointer: Any) -> Any:
    """Answers each message; keeps values of every storage form."""

    def answer(state: State) -> dict[str, Any]:
        number = (state.get("count") or 0) + 1
        return {
            "messages": [AIMessage(f"answer {number}", id=f"a{number}")],
            "log": [f"turn {number}"],
            "data": {"number": number, "bytes": b"\x00\xff", "list": [1, None]},
            "count": number,
            "note": f"n{number}",
            "empty": None,
        }

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=checkpointer)


def asking(checkpointer: Any, ran: list[str]) -> Any:
    """Three parallel branches: one asks twice, one asks once, one is done; then they join."""

    def twice(state: State) -> dict[str, Any]:
        ran.append("twice")
        first = interrupt("first?")
        second = interrupt("second?")
        return {"log": [f"twice {first} {second}"]}

    def once(state: State) -> dict[str, Any]:
        ran.append("once")
        return {"log": [f"once {interrupt({'ask': 'once?'})}"]}

    def done(state: State) -> dict[str, Any]:
        ran.append("done")
        return {"log": ["done"]}

    def join(state: State) -> dict[str, Any]:
        ran.append("join")
        return {"log": ["join"]}

    graph = StateGraph(State)
    for node in (twice, once, done, join):
        graph.add_node(node.__name__, node)
    for name in ("twice", "once", "done"):
        graph.add_edge(START, name)
    graph.add_edge(["twice", "once", "done"], "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=checkpointer)


def sending(checkpointer: Any, ran: list[str]) -> Any:
    """Fans out with `Send`; the second worker asks."""

    class Job(TypedDict):
        number: int

    def worker(job: Job) -> dict[str, Any]:
        ran.append(f"worker {job['number']}")
        if job["number"] == 2:
            return {"log": [f"worker 2 {interrupt('two?')}"]}
        return {"log": [f"worker {job['number']}"]}

    graph = StateGraph(State)
    graph.add_node("plan", lambda state: {"log": ["plan"]})
    graph.add_node("worker", worker)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda state: [Send("worker", {"number": n}) for n in (1, 2, 3)], ["worker"]
    )
    graph.add_edge("worker", END)
    return graph.compile(checkpointer=checkpointer)


def nested(checkpointer: Any, ran: list[str], *, lasting: bool = False) -> Any:
    """A subgraph of a subgraph asks after a step of its own."""

    def ask(state: State) -> dict[str, Any]:
        ran.append("ask")
        return {"log": [f"ask {interrupt('deep?')}"]}

    def first(state: State) -> dict[str, Any]:
        ran.append("first")
        return {"log": ["first"]}

    inner = StateGraph(State)
    inner.add_node("first", first)
    inner.add_node("ask", ask)
    inner.add_edge(START, "first")
    inner.add_edge("first", "ask")
    middle = StateGraph(State)
    middle.add_node("prepare", lambda state: {"log": ["prepare"]})
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "prepare")
    middle.add_edge("prepare", "inner")
    outer = StateGraph(State)
    outer.add_node("middle", middle.compile(checkpointer=True if lasting else None))
    outer.add_edge(START, "middle")
    return outer.compile(checkpointer=checkpointer)


def remembering(checkpointer: Any) -> Any:
    """A subgraph with a counter of its own that outlives each run."""

    class Own(TypedDict, total=False):
        log: list[str]
        runs: Annotated[list[str], operator.add]

    def count(state: Own) -> dict[str, Any]:
        return {"runs": ["run"], "log": [f"run {len(state.get('runs') or []) + 1}"]}

    inner = StateGraph(Own)
    inner.add_node("count", count)
    inner.add_edge(START, "count")
    outer = StateGraph(State)
    outer.add_node("memory", inner.compile(checkpointer=True))
    outer.add_edge(START, "memory")
    return outer.compile(checkpointer=checkpointer)


def delta(checkpointer: Any, *, ask: bool = False) -> Any:
    """A chat whose messages are stored as changes."""

    class Delta(TypedDict, total=False):
        items: Annotated[list[str], DeltaChannel(_extend, snapshot_frequency=4)]
        count: int

    def answer(state: Delta) -> dict[str, Any]:
        number = (state.get("count") or 0) + 1
        if ask and number == 3:
            return {"items": [f"answer {interrupt('delta?')}"], "count": number}
        return {"items": [f"answer {number}"], "count": number}

    graph = StateGraph(Delta)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=checkpointer)


def _extend(items: list[str], writes: list[list[str]]) -> list[str]:
    return [*items, *(item for write in writes for item in write)]
