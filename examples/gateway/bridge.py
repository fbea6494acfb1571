"""Hands what a run streams to whoever listens: many at once, and those who come late.

The bridge lives in one process and in memory. What has to last is in the checkpoints and in the
run events; a listener of another worker's run waits for its end and reads the result there.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from deerstore.gateway import serialize_channel_values_for_api

__all__ = ["StreamBridge", "StreamEvent"]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One server-sent event."""

    id: int
    """From 1, in the order of the run."""
    name: str
    data: str
    """JSON text, made once for all listeners."""

    @classmethod
    def of(cls, number: int, name: str, data: Any) -> StreamEvent:
        """An event of any graph state."""
        plain = serialize_channel_values_for_api(data)
        return cls(number, name, json.dumps(plain, allow_nan=False))

    def encode(self) -> bytes:
        """The event as it goes over the wire."""
        return f"event: {self.name}\ndata: {self.data}\nid: {self.id}\n\n".encode()


@dataclass(slots=True)
class _Channel:
    events: deque[StreamEvent]
    last_id: int = 0
    closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class StreamBridge:
    """One channel per run.

    Args:
        max_events: so many events of a run are kept for those who come late. Who falls further
            behind goes on with the oldest that is left.
        max_ended: so many ended runs are kept, so that a lost connection can be taken up again.
    """

    def __init__(self, *, max_events: int = 1000, max_ended: int = 100) -> None:
        self._max_events = max_events
        self._max_ended = max_ended
        self._channels: dict[str, _Channel] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._channels

    def open(self, run_id: str) -> None:
        """Begin a run's channel."""
        self._channels[run_id] = _Channel(deque(maxlen=self._max_events))

    def publish(self, run_id: str, name: str, data: Any) -> None:
        """Append an event; any graph state is taken."""
        channel = self._channels[run_id]
        channel.last_id += 1
        channel.events.append(StreamEvent.of(channel.last_id, name, data))
        channel.tell()

    def close(self, run_id: str) -> None:
        """End a run's channel: listeners get what is left, and then their end."""
        channel = self._channels[run_id]
        channel.closed = True
        channel.tell()
        self._ended[run_id] = None
        while len(self._ended) > self._max_ended:
            oldest, _ = self._ended.popitem(last=False)
            del self._channels[oldest]

    async def listen(self, run_id: str, *, after: int = 0) -> AsyncIterator[StreamEvent]:
        """A run's events from the one behind `after`, to the end of the run."""
        channel = self._channels[run_id]
        while True:
            # Taken before looking, so that nothing that is published meanwhile is missed.
            news = channel.news
            for event in [event for event in channel.events if event.id > after]:
                after = event.id
                yield event
            if channel.last_id > after:
                continue
            if channel.closed:
                return
            await news.wait()
