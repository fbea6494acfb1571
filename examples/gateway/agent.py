"""The agent: a LangGraph graph with two tools and a question to the human.

Its model answers by rules, so that it needs no key and no network. What to write to it:

- ``weather in Lisbon`` makes it call a tool;
- ``book 3 days in Lisbon`` makes it ask the human, who answers with ``Command(resume="yes")``;
- ``slowly`` makes it speak for some seconds, so that there is something to cancel;
- ``fail`` makes the model raise.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, NotRequired

from langchain_core.language_models.chat_models import BaseChatModel, agenerate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore

ASSISTANT_ID = "agent"
MODEL_NAME = "rules-1"

_SLOW_WORDS = 100
_SLOW_SECONDS_PER_WORD = 0.05
_TITLE_LENGTH = 60


class State(MessagesState):
    """The conversation, and the name that the agent gives it."""

    title: NotRequired[str]


class RuleModel(BaseChatModel):
    """A chat model that streams its answers word by word and reports usage, as real ones do."""

    @property
    def _llm_type(self) -> str:
        return "rules"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_answer(messages))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages))

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer = _answer(messages)
        pause = _SLOW_SECONDS_PER_WORD if "slowly" in _last_words(messages) else 0
        for word in re.findall(r"\S+\s*", str(answer.content)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word, id=answer.id))
            await asyncio.sleep(pause)
        # Tool calls, usage and the model's name come with the last chunk.
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                id=answer.id,
                tool_calls=answer.tool_calls,
                usage_metadata=answer.usage_metadata,
                response_metadata=answer.response_metadata,
                chunk_position="last",
            )
        )


def _answer(messages: Sequence[BaseMessage]) -> AIMessage:
    words, calls = _last_words(messages), []
    if "fail" in words:
        raise ValueError("the model has no answer")
    if isinstance(messages[-1], ToolMessage):
        text = f"{messages[-1].text}."
    elif asked := re.search(r"weather in (\w+)", words):
        text, calls = "", [_call("look_up_weather", city=asked[1])]
    elif asked := re.search(r"book (\d+) days in (\w+)", words):
        text, calls = "", [_call("book_trip", days=int(asked[1]), city=asked[2])]
    elif "slowly" in words:
        text = " ".join(str(number) for number in range(1, _SLOW_WORDS + 1))
    else:
        text = f"You said: {words}"
    heard = sum(len(message.text.split()) for message in messages)
    spoken = max(len(text.split()), len(calls))
    return AIMessage(
        text,
        id=f"run-{uuid.uuid4()}",
        tool_calls=calls,
        usage_metadata={
            "input_tokens": heard,
            "output_tokens": spoken,
            "total_tokens": heard + spoken,
        },
        response_metadata={"model_name": MODEL_NAME},
    )


def _last_words(messages: Sequence[BaseMessage]) -> str:
    return next((message.text for message in reversed(messages) if message.type == "human"), "")


def _call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, args=arguments, id=f"call-{uuid.uuid4()}", type="tool_call")


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
    checkpointer: BaseCheckpointSaver[Any], store: BaseStore
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph over the bundle's checkpointer and Store."""
    model = RuleModel()

    def name_thread(state: State) -> dict[str, Any]:
        if state.get("title"):
            return {}
        return {"title": _last_words(state["messages"])[:_TITLE_LENGTH] or "Untitled"}

    async def think(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def has_tool_calls(state: State) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(State)
    graph.add_node("name_thread", name_thread)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([look_up_weather, book_trip]))
    graph.add_edge(START, "name_thread")
    graph.add_edge("name_thread", "think")
    graph.add_conditional_edges("think", has_tool_calls, ["tools", END])
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=checkpointer, store=store)
