"""What a run's own row says about its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from deerstore.gateway.journal.messages import is_visible, text_of
from deerstore.gateway.journal.usage import RecentSet
from deerstore.values import SUMMARY_LENGTH

__all__ = ["MessageSummary"]


@dataclass(slots=True)
class MessageSummary:
    """Counts the messages that the user sees, each once, and keeps the first and last words."""

    message_count: int = 0
    first_human_message: str | None = None
    last_ai_message: str | None = None
    _counted: RecentSet = field(default_factory=lambda: RecentSet(65_536))

    def count(self, message: BaseMessage) -> None:
        """Count a human, AI or tool message."""
        if not is_visible(message):
            return
        key = message.tool_call_id if isinstance(message, ToolMessage) else message.id
        if key is None or self._counted.add((message.type, key)):
            self.message_count += 1

    def asked(self, message: BaseMessage) -> None:
        """The user's words."""
        self.first_human_message = text_of(message)[:SUMMARY_LENGTH]

    def answered(self, message: BaseMessage) -> None:
        """An answer of the lead agent; one without words changes nothing."""
        words = text_of(message)
        if words.strip() and is_visible(message):
            self.last_ai_message = words[:SUMMARY_LENGTH]

    def as_completion(self) -> dict[str, Any]:
        """The message fields of ``update_run_completion``."""
        return {
            "message_count": self.message_count,
            "last_ai_message": self.last_ai_message,
            "first_human_message": self.first_human_message,
        }
