# ruff: noqa: ARG002 - a callback is handed more than it needs
"""Observes one run and writes down what happened; it decides nothing.

Hand the journal to the run as a callback, and wait for its events at the end::

    journal = RunJournal(run_id, thread_id, event_store)
    try:
        await graph.ainvoke(input, {"callbacks": [journal], "configurable": {...}})
    finally:
        await journal.flush()
    await runs.update_run_completion(run_id, status="success", **journal.completion())

====================  ==========  ==============================================================
event_type            category    content
====================  ==========  ==============================================================
``run.start``         trace       empty; metadata ``name``
``run.end``           outputs     the outputs as plain data, at most ``max_output_bytes`` bytes
``run.error``         error       the error's text; metadata ``error_type``
``llm.human.input``   message     ``model_dump()`` of the user's newest visible message
``llm.ai.response``   message     ``model_dump()`` of the answer; also of one that was cut off,
                                  marked ``interrupted`` in the metadata and in the message's
                                  ``additional_kwargs``
``llm.tool.result``   message     ``model_dump()`` of the tool message that the model sees
``llm.error``         trace       the error's text; metadata ``error_type``
``middleware:<tag>``  middleware  ``name``, ``hook``, ``action``, ``changes``
====================  ==========  ==============================================================

Metadata of a call's events: ``caller``, ``usage`` (token counts or null), ``latency_ms``,
``llm_call_index`` (from 1, by start).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult

from deerstore.gateway.journal.buffer import EventBuffer
from deerstore.gateway.journal.calls import Call, OpenCalls, OpenToolCalls
from deerstore.gateway.journal.messages import (
    answers_of,
    dumped,
    newest_human_message,
    tool_messages,
    words_of,
)
from deerstore.gateway.journal.outputs import bounded_outputs
from deerstore.gateway.journal.summary import MessageSummary
from deerstore.gateway.journal.usage import (
    LEAD_AGENT,
    Usage,
    UsageTally,
    caller_of,
    model_of,
    usage_of_call,
)
from deerstore.values import identifier

__all__ = ["RunJournal"]

_EVENT_TYPE_LENGTH = 32


class RunJournal(BaseCallbackHandler):
    """A LangChain callback handler that records a run.

    Works under ``invoke``, ``ainvoke``, ``stream`` and ``astream``, with parallel branches and
    subgraphs, on the event loop and off it. One journal observes one run.

    Args:
        run_id: the run's id in the database.
        thread_id: its thread.
        event_store: where events go; anything with ``put_batch(list[dict])``.
        user_id: owner of the events; left out, the store decides.
        flush_threshold: so many waiting events are written without being asked, while an event
            loop runs.
        max_pending_events: so many events are held in memory while the store takes none; beyond
            it the oldest traces are dropped, then the oldest events, and an error is logged.
        max_output_bytes: cap of the ``run.end`` content, in UTF-8 bytes of its JSON. What was cut
            is said in the metadata: ``content_truncated``, ``original_byte_length``, and under
            ``cut`` the original size of each key that lost something.
    """

    # Called in the order of what happens, and before the run goes on: a callback that was handed
    # to a thread could be overtaken, or lost in a cancel.
    run_inline = True
    raise_error = False

    def __init__(
        self,
        run_id: str | UUID,
        thread_id: str | UUID,
        event_store: Any,
        *,
        user_id: str | UUID | None = None,
        flush_threshold: int = 20,
        max_pending_events: int = 10_000,
        max_output_bytes: int = 64 * 1024,
    ) -> None:
        self.run_id = identifier("run_id", run_id)
        self.thread_id = identifier("thread_id", thread_id)
        self._owner = {} if user_id is None else {"user_id": identifier("user_id", user_id)}
        self._max_output_bytes = max_output_bytes
        self._buffer = EventBuffer(
            event_store,
            self.thread_id,
            self.run_id,
            flush_threshold=flush_threshold,
            max_pending=max_pending_events,
        )
        self._lock = threading.RLock()
        self._root: UUID | None = None
        self._ended = False
        self._calls = OpenCalls()
        self._lead_called = False
        self._tool_calls = OpenToolCalls()
        self._tally = UsageTally()
        self._summary = MessageSummary()

    # -- what the gateway calls ------------------------------------------------------------------

    async def flush(self) -> None:
        """Write every event of before the call to the event store.

        Cancelling it is safe: the write that is under way goes on, and a later ``flush`` waits
        for it.

        Raises:
            Exception: what the event store raised. Nothing is lost; call again.
        """
        await self._buffer.flush()

    def completion(self) -> dict[str, Any]:
        """What the run came to so far: the arguments of ``update_run_completion``."""
        with self._lock:
            return {
                **self._tally.as_completion(),
                "llm_call_count": self._calls.count,
                **self._summary.as_completion(),
            }

    def record_external_llm_usage_records(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Count the usage of subagents that run elsewhere; gives how many records were new.

        Each ``source_run_id`` counts once, and not when its call was observed here.
        """
        with self._lock:
            return self._tally.add_records(records)

    def record_middleware(
        self, tag: str, *, name: str, hook: str, action: str, changes: Any = None
    ) -> None:
        """Record what a middleware did; the event's type is ``middleware:<tag>``."""
        with self._lock:
            self._put(
                f"middleware:{tag}"[:_EVENT_TYPE_LENGTH],
                "middleware",
                {"name": name, "hook": hook, "action": action, "changes": changes},
            )

    @property
    def pending_events(self) -> int:
        """How many events the event store does not have yet."""
        return len(self._buffer)

    @property
    def dropped_events(self) -> int:
        """How many events gave way because the store took none for too long."""
        return self._buffer.dropped

    @property
    def rejected_events(self) -> list[tuple[str, str]]:
        """Type and error of events that could never be written; at most the first hundred."""
        return list(self._buffer.rejected)

    # -- chains ----------------------------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """The first chain without a parent is the run."""
        if parent_run_id is not None:
            return
        with self._lock:
            if self._root is not None:
                return
            self._root = run_id
            name = kwargs.get("name") or (serialized or {}).get("name") or ""
            self._put("run.start", "trace", "", {"name": str(name)})

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """The run's end; a node's end may bring tool results that no tool callback showed."""
        with self._lock:
            self._find_tool_results(outputs)
            if not self._ends_run(run_id):
                return
        # Outputs may be large: others do not wait for them.
        content, cut = bounded_outputs(outputs, self._max_output_bytes)
        with self._lock:
            self._put("run.end", "outputs", content, cut)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """The run's failure or cancellation."""
        with self._lock:
            if self._ends_run(run_id):
                self._put(
                    "run.error", "error", words_of(error), {"error_type": type(error).__name__}
                )

    def _ends_run(self, run_id: UUID) -> bool:
        if run_id != self._root or self._ended:
            return False
        self._ended = True
        # Not every cancelled call says so: those that are still open were cut off.
        for call_id in self._calls.open_ids():
            self._interrupted(call_id, None)
        return True

    # -- model calls -----------------------------------------------------------------------------

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chat model is called."""
        with self._lock:
            call = self._calls.begin(run_id, tags)
            if call is None:
                return
            prompt = messages[0] if messages else []
            self._find_tool_results(prompt)
            if call.caller == LEAD_AGENT and not self._lead_called:
                self._lead_called = True
                human = newest_human_message(prompt)
                if human is not None:
                    self._summary.asked(human)
                    self._put_message("llm.human.input", human, {"caller": call.caller})

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model that is no chat model is called."""
        with self._lock:
            self._calls.begin(run_id, tags)

    def on_llm_new_token(
        self, token: str | list[Any], *, chunk: Any = None, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep what a call has produced, should it be cut off."""
        with self._lock:
            call = self._calls.get(run_id)
            if call is not None:
                message = getattr(chunk, "message", None)
                call.chunks.append(message if message is not None else token)

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """The same, for a model that streams events instead of tokens."""
        delta = event.get("delta") if event.get("event") == "content-block-delta" else None
        if isinstance(delta, Mapping) and delta.get("type") == "text-delta":
            self.on_llm_new_token(str(delta.get("text", "")), run_id=run_id)

    def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, tags: list[str] | None = None, **kwargs: Any
    ) -> None:
        """A call answered."""
        with self._lock:
            ended = self._calls.end(run_id, tags)
            if ended is None:
                return
            answers = answers_of(response)
            usage = self._count(run_id, ended.caller, answers, response.llm_output)
            if answers:
                self._put_answer(answers[0], ended, usage)

    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, tags: list[str] | None = None, **kwargs: Any
    ) -> None:
        """A call failed, or was cut off by a cancel."""
        response = kwargs.get("response")
        with self._lock:
            if not isinstance(error, Exception):
                self._interrupted(run_id, response)
                return
            ended = self._calls.end(run_id, tags)
            if ended is None:
                return
            partial = ended.produced(response)
            usage = self._count(run_id, ended.caller, [partial] if partial else [], None)
            metadata = {**ended.metadata(usage), "error_type": type(error).__name__}
            self._put("llm.error", "trace", words_of(error), metadata)

    def _interrupted(self, run_id: UUID, response: LLMResult | None) -> None:
        ended = self._calls.end(run_id, None) if self._calls.get(run_id) is not None else None
        partial = ended.produced(response) if ended is not None else None
        if ended is None or partial is None:
            return
        usage = self._count(run_id, ended.caller, [partial], None)
        marked = partial.model_copy(
            update={"additional_kwargs": {**partial.additional_kwargs, "interrupted": True}}
        )
        self._put_answer(marked, ended, usage, interrupted=True)

    def _count(
        self, run_id: UUID, caller: str, answers: Sequence[BaseMessage], llm_output: Any
    ) -> Usage:
        usage = usage_of_call(answers, llm_output)
        self._tally.add(run_id, caller, model_of(answers, llm_output), usage)
        return usage

    def _put_answer(
        self, message: BaseMessage, call: Call, usage: Usage, *, interrupted: bool = False
    ) -> None:
        metadata = call.metadata(usage)
        if interrupted:
            metadata["interrupted"] = True
        if isinstance(message, AIMessage):
            for tool_call in message.tool_calls:
                self._tool_calls.expect(tool_call.get("id"))
        if call.caller == LEAD_AGENT:
            self._summary.answered(message)
        self._put_message(
            "llm.ai.response", message, metadata, counted=not call.caller.startswith("middleware:")
        )

    # -- tools -----------------------------------------------------------------------------------

    def on_tool_end(self, output: Any, *, tags: list[str] | None = None, **kwargs: Any) -> None:
        """A tool's result, where it is a message for the model."""
        with self._lock:
            for message in tool_messages(output):
                self._put_tool_result(message, caller_of(tags))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        """A failed tool: what the model is told about it is found later."""
        with self._lock:
            self._tool_calls.expect(kwargs.get("tool_call_id"))

    def _find_tool_results(self, output: Any) -> None:
        """Results that reach the model without a tool callback: of a failed tool, or hand-made."""
        for message in self._tool_calls.results_in(output):
            self._put_tool_result(message, None)

    def _put_tool_result(self, message: ToolMessage, caller: str | None) -> None:
        if self._tool_calls.answer(message.tool_call_id):
            metadata = {"caller": caller} if caller is not None else {}
            self._put_message("llm.tool.result", message, metadata)

    # -- events ----------------------------------------------------------------------------------

    def _put_message(
        self,
        event_type: str,
        message: BaseMessage,
        metadata: dict[str, Any],
        *,
        counted: bool = True,
    ) -> None:
        if counted:
            self._summary.count(message)
        self._put(event_type, "message", dumped(message), metadata)

    def _put(
        self, event_type: str, category: str, content: Any, metadata: dict[str, Any] | None = None
    ) -> None:
        self._buffer.add(
            {
                "thread_id": self.thread_id,
                "run_id": self.run_id,
                "event_type": event_type,
                "category": category,
                "content": content,
                "metadata": metadata or {},
                **self._owner,
            }
        )
