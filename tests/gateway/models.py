"""Fake chat models and event stores for the journal's tests."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Model(BaseChatModel):
    """Answers with a list of results, over and over."""

    results: list[Any]
    llm_output: dict[str, Any] | None = None
    delay: float = 0
    _next: Any = None

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _result(self) -> ChatResult:
        if self._next is None:
            self._next = itertools.cycle(self.results)
        answers = next(self._next)
        if isinstance(answers, BaseException):
            raise answers
        messages = answers if isinstance(answers, list) else [answers]
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=m.model_copy(deep=True) if isinstance(m, BaseMessage) else AIMessage(m)
                )
                for m in messages
            ],
            llm_output=self.llm_output,
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        time.sleep(self.delay)
        return self._result()

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        await asyncio.sleep(self.delay)
        return self._result()


class StreamingModel(Model):
    """Answers word by word; the last chunk carries the usage."""

    pause: float = 0
    fail_after: int | None = None

    def _chunks(self) -> Iterator[ChatGenerationChunk]:
        message = self._result().generations[0].message
        words = str(message.content).split(" ")
        for number, word in enumerate(words):
            if self.fail_after == number:
                raise RuntimeError("broken stream")
            last = number == len(words) - 1
            yield ChatGenerationChunk(
                message=AIMessageChunk(
                    word if last else f"{word} ",
                    tool_call_chunks=[
                        {
                            "name": c["name"],
                            "args": json.dumps(c["args"]),
                            "id": c["id"],
                            "index": i,
                        }
                        for i, c in enumerate(message.tool_calls)
                    ]
                    if last
                    else [],
                    usage_metadata=message.usage_metadata if last else None,
                    response_metadata=message.response_metadata if last else {},
                )
            )

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks():
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks():
            await asyncio.sleep(self.pause)
            yield chunk


def answer(text: str = "hello", **fields: Any) -> AIMessage:
    """An answer with usage."""
    return AIMessage(
        text,
        **{"usage_metadata": dict(USAGE), "response_metadata": {"model_name": "m1"}, **fields},
    )


class EventStore:
    """Keeps events as rows, and refuses, breaks or waits on demand."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.failures: list[BaseException] = []
        self.refuse: Callable[[dict[str, Any]], BaseException | None] = lambda event: None
        self.before: Callable[[], Any] | None = None
        self.after: Callable[[], Any] | None = None

    async def put_batch(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before()
        if self.failures:
            raise self.failures.pop(0)
        for event in events:
            error = self.refuse(event)
            if error is not None:
                raise error
        stored = [{**e, "seq": len(self.rows) + i} for i, e in enumerate(events, 1)]
        self.rows += stored
        self.batches.append(len(events))
        if self.after is not None:
            await self.after()
        return stored

    def types(self) -> list[str]:
        return [row["event_type"] for row in self.rows]

    def of(self, event_type: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["event_type"] == event_type]


class ReadableStore(EventStore):
    """One whose rows can be looked up."""

    async def list_events(
        self,
        thread_id: str,
        run_id: str,
        *,
        event_types: Any = None,
        task_id: Any = None,
        limit: int = 500,
        after_seq: int | None = None,
        user_id: Any = None,
    ) -> list[dict[str, Any]]:
        found = [r for r in self.rows if r["run_id"] == run_id and r["seq"] > (after_seq or 0)]
        return found[:limit]
