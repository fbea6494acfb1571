"""What LangGraph streams, as the events that the `langgraph-sdk` client expects.

=====================  =========================================================================
event                  data
=====================  =========================================================================
``metadata``           ``run_id`` and ``thread_id``; always the first
``values``, …          what LangGraph gives in that mode
``messages``           mode ``messages-tuple``: each piece of a message, with where it came from
``messages/metadata``  mode ``messages``: where a message comes from, once
``messages/partial``   mode ``messages``: the message so far
``messages/complete``  mode ``messages``: a message that came as a whole
``error``              ``error`` and ``message`` of a run that failed
``end``                ``run_id`` and ``status``; always the last
=====================  =========================================================================

An event of a subgraph carries its place: ``values|name:id``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessageChunk, message_chunk_to_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langgraph.types import StreamMode

    from examples.gateway.bridge import StreamBridge
    from examples.gateway.shapes import RunRequest


class Publisher:
    """Publishes one run's stream, in the modes that were asked for."""

    def __init__(self, bridge: StreamBridge, run_id: str, request: RunRequest) -> None:
        self._bridge = bridge
        self._run_id = run_id
        self._wanted = request.stream_modes
        self._subgraphs = request.stream_subgraphs
        self._messages: dict[str, BaseMessage] = {}

    @property
    def graph_modes(self) -> list[StreamMode]:
        """What to ask LangGraph for.

        Messages always: a model that streams is what lets the journal keep half an answer.
        """
        named: dict[str, StreamMode] = {
            "values": "values",
            "updates": "updates",
            "custom": "custom",
            "tasks": "tasks",
            "checkpoints": "checkpoints",
            "debug": "debug",
        }
        return ["messages", *(mode for name, mode in named.items() if name in self._wanted)]

    def begin(self, thread_id: str) -> None:
        """Say which run this is."""
        self._put("metadata", {"run_id": self._run_id, "thread_id": thread_id})

    def publish(self, namespace: Sequence[str], mode: str, chunk: Any) -> None:
        """Publish what LangGraph gave."""
        if namespace and not self._subgraphs:
            return
        place = "|".join(["", *namespace])
        if mode != "messages":
            self._put(f"{mode}{place}", chunk)
            return
        if "messages-tuple" in self._wanted:
            self._put(f"messages{place}", chunk)
        if "messages" in self._wanted:
            self._publish_message(place, *chunk)

    def end(self, status: str, error: str | None = None) -> None:
        """Say how the run ended."""
        if error is not None:
            self._put("error", error_out(error))
        self._put("end", {"run_id": self._run_id, "status": status})

    def _publish_message(self, place: str, piece: BaseMessage, metadata: dict[str, Any]) -> None:
        key = str(piece.id)
        known = self._messages.get(key)
        if known is None:
            self._put(f"messages/metadata{place}", {key: {"metadata": metadata}})
        whole = known + piece if isinstance(known, BaseMessageChunk) else piece
        self._messages[key] = whole
        if isinstance(whole, BaseMessageChunk):
            self._put(f"messages/partial{place}", [message_chunk_to_message(whole)])
        else:
            self._put(f"messages/complete{place}", [whole])

    def _put(self, name: str, data: Any) -> None:
        self._bridge.publish(self._run_id, name, data)


def error_out(error: str) -> dict[str, str]:
    """A run's error, as the client shows it."""
    kind, _, message = error.partition(": ")
    return {"error": kind, "message": message or kind}
