"""The model and tool calls of a run that have not ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult

from deerstore.gateway.journal.messages import answers_of, merged, tool_messages
from deerstore.gateway.journal.usage import RecentSet, Usage, caller_of

__all__ = ["Call", "OpenCalls", "OpenToolCalls"]

_REMEMBERED = 65_536


@dataclass(slots=True)
class Call:
    """One model call. ``index`` counts from 1 by start; ``started`` is monotonic time."""

    index: int
    caller: str
    started: float
    chunks: list[Any] = field(default_factory=list)

    def metadata(self, usage: Usage) -> dict[str, Any]:
        """What an event of this call says about it, as of now."""
        return {
            "caller": self.caller,
            "usage": usage.as_dict() if usage else None,
            "latency_ms": round((time.monotonic() - self.started) * 1000),
            "llm_call_index": self.index,
        }

    def produced(self, response: LLMResult | None) -> BaseMessage | None:
        """What there was when the call broke off; ``None`` for nothing."""
        if self.chunks:
            return merged(self.chunks)
        for message in answers_of(response):
            if message.content or getattr(message, "tool_calls", None):
                return message
        return None


class OpenCalls:
    """Numbers calls by start and tells each end from its repetition.

    Of a call that has ended only its id is remembered.
    """

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[UUID, Call] = {}
        self._ended = RecentSet(_REMEMBERED)

    def begin(self, call_id: UUID, tags: Sequence[str] | None) -> Call | None:
        """A new call; ``None`` when its start was delivered before."""
        if call_id in self._open or call_id in self._ended:
            return None
        self._open[call_id] = self._new(tags)
        return self._open[call_id]

    def get(self, call_id: UUID) -> Call | None:
        """A call that has not ended."""
        return self._open.get(call_id)

    def end(self, call_id: UUID, tags: Sequence[str] | None) -> Call | None:
        """The call that ends now; ``None`` when its end was delivered before."""
        if not self._ended.add(call_id):
            return None
        call = self._open.pop(call_id, None)
        # Without a start it was not observed from the beginning, but it was made.
        return call if call is not None else self._new(tags)

    def open_ids(self) -> Iterable[UUID]:
        """The calls that have not ended, by start."""
        return list(self._open)

    def _new(self, tags: Sequence[str] | None) -> Call:
        self.count += 1
        return Call(self.count, caller_of(tags), time.monotonic())


class OpenToolCalls:
    """Tool calls whose result the model has not been given yet."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._answered = RecentSet(_REMEMBERED)

    def expect(self, tool_call_id: Any) -> None:
        """A model asked for a tool, or the tool failed: a result will follow."""
        if isinstance(tool_call_id, str) and tool_call_id not in self._answered:
            self._open.add(tool_call_id)

    def answer(self, tool_call_id: str) -> bool:
        """A result is there; whether it is the first one."""
        self._open.discard(tool_call_id)
        return not tool_call_id or self._answered.add(tool_call_id)

    def results_in(self, output: Any) -> list[ToolMessage]:
        """The awaited results in what a node returned or a model is given."""
        return list(tool_messages(output, self._open)) if self._open else []
