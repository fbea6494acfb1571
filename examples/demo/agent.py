"""The agent: a LangGraph graph with a scripted model, two tools and a question to the human."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.messages import AnyMessage
    from langgraph.graph.state import CompiledStateGraph

    from deerstore.persistence import AppPersistence

FIRST_QUESTION = HumanMessage("What is the weather in Lisbon?", id="human-1")
SECOND_QUESTION = HumanMessage("Then book me three days there.", id="human-2")


def _says(text: str, number: int, tool_call: dict[str, Any] | None = None) -> AIMessage:
    return AIMessage(
        text,
        id=f"ai-{number}",
        tool_calls=[{"type": "tool_call", **tool_call}] if tool_call else [],
        usage_metadata={
            "input_tokens": 40 * number,
            "output_tokens": 10,
            "total_tokens": 40 * number + 10,
        },
        response_metadata={"model_name": "scripted"},
    )


#: What the model answers before the kill …
BEFORE = (
    _says("", 1, {"name": "look_up_weather", "args": {"city": "Lisbon"}, "id": "call-1"}),
    _says("Sunny, 24 degrees.", 2),
    _says("", 3, {"name": "book_trip", "args": {"city": "Lisbon", "days": 3}, "id": "call-2"}),
)
#: … and after it, in another process.
AFTER = (_says("Booked: three days in Lisbon. Have a good trip!", 4),)


@tool
def look_up_weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny, 24 degrees"


@tool
def book_trip(city: str, days: int) -> str:
    """Book a trip, once the human has agreed."""
    answer = interrupt({"question": f"Book {days} days in {city}?"})
    return f"{days} days in {city}: {'booked' if answer == 'yes' else 'not booked'}"


def build_agent(
    persistence: AppPersistence, script: Iterable[AIMessage]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph over the bundle's checkpointer and Store, answering from a script."""
    model = GenericFakeChatModel(messages=iter(script))

    async def think(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def has_tool_calls(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([look_up_weather, book_trip]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", has_tool_calls, ["tools", END])
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=persistence.checkpointer, store=persistence.store)
