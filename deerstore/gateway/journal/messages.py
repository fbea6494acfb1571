"""What the journal has to know about LangChain's messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, LLMResult

from deerstore.gateway.serialization import serialize_channel_values_for_api

__all__ = [
    "answers_of",
    "dumped",
    "is_visible",
    "merged",
    "newest_human_message",
    "text_of",
    "tool_messages",
    "words_of",
]

# Where tool messages may hide in what a node returns; deeper is somebody else's data.
_SEARCH_DEPTH = 4


def text_of(message: BaseMessage) -> str:
    """The words of a message: its string, or the text blocks of its list."""
    if isinstance(message.content, str):
        return message.content
    words = []
    for block in message.content:
        if isinstance(block, str):
            words.append(block)
        elif (
            isinstance(block, dict)
            and block.get("type", "text") in ("text", "output_text", "input_text")
            and isinstance(block.get("text"), str)
        ):
            words.append(block["text"])
    return "".join(words)


def is_visible(message: BaseMessage) -> bool:
    """Whether the user sees a message: not hidden, and no summary of what was said before."""
    return not (
        message.additional_kwargs.get("hide_from_ui")
        or message.name == "summary"
        or message.additional_kwargs.get("lc_source") == "summarization"
    )


def newest_human_message(messages: Iterable[BaseMessage]) -> HumanMessage | None:
    """The user's last words among a call's messages."""
    for message in reversed(list(messages)):
        if isinstance(message, HumanMessage) and is_visible(message):
            return message
    return None


def answers_of(response: LLMResult | None) -> list[BaseMessage]:
    """Every message that a call produced, complete ones also when they were streamed."""
    answers: list[BaseMessage] = []
    for prompt in response.generations if response is not None else ():
        for generation in prompt:
            if isinstance(generation, ChatGeneration):
                answers.append(_whole(generation.message))
            else:
                # A model that is no chat model answers with text alone.
                answers.append(AIMessage(generation.text))
    return answers


def merged(chunks: list[Any]) -> BaseMessage | None:
    """The message that a broken-off stream had come to; ``None`` when it has nothing in it."""
    whole: Any = None
    for chunk in chunks:
        if isinstance(chunk, str | list):
            chunk = AIMessageChunk(content=chunk)  # noqa: PLW2901
        whole = chunk if whole is None else whole + chunk
    if whole is None or not (whole.content or getattr(whole, "tool_call_chunks", None)):
        return None
    return _whole(whole)


def _whole(message: BaseMessage) -> BaseMessage:
    """A message of the plain class, so that streaming leaves no trace in what is kept."""
    return message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message


def dumped(message: BaseMessage) -> Any:
    """A message as plain data."""
    try:
        return message.model_dump()
    except Exception:  # noqa: BLE001 - what a message carries may refuse to be dumped
        return serialize_channel_values_for_api(message)


def words_of(error: BaseException) -> str:
    """What an error says, or at least its type."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - a broken __str__ may raise anything
        return type(error).__name__


def tool_messages(output: Any, wanted: Collection[str] | None = None) -> Iterator[ToolMessage]:
    """The tool messages in what a tool or a node returned, in order.

    They may stand in a ``Command``'s update, in lists and in state updates. With ``wanted``, only
    those that answer one of these tool calls.
    """
    for message in _found(output, _SEARCH_DEPTH):
        if wanted is None or message.tool_call_id in wanted:
            yield message


def _found(value: Any, depth: int) -> Iterator[ToolMessage]:
    if isinstance(value, ToolMessage):
        yield value
    elif depth == 0:
        return
    elif isinstance(value, Mapping):
        if value.get("tool_call_id") and "content" in value:
            yield from _from_dict(value)
            return
        for item in value.values():
            if not isinstance(item, str | bytes):
                yield from _found(item, depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _found(item, depth - 1)
    elif hasattr(value, "goto") and hasattr(value, "update"):
        yield from _found(value.update, depth - 1)


def _from_dict(value: Mapping[str, Any]) -> Iterator[ToolMessage]:
    if "tool" not in (value.get("type"), value.get("role")):
        return
    try:
        (message,) = convert_to_messages([dict(value)])
    except (ValueError, NotImplementedError, KeyError, TypeError):
        return
    if isinstance(message, ToolMessage):
        yield message
