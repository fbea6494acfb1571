"""What a run's model calls cost: by model, by caller, and in all.

The three sums are always equal, because each call is added to all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RecentSet", "Usage", "UsageTally", "caller_of", "model_of", "usage_of_call"]

LEAD_AGENT = "lead_agent"
_SUBAGENT, _MIDDLEWARE = "subagent:", "middleware:"
_INPUT_KEYS = ("input_tokens", "prompt_tokens", "inputTokens", "prompt_token_count")
_OUTPUT_KEYS = ("output_tokens", "completion_tokens", "outputTokens", "candidates_token_count")
_TOTAL_KEYS = ("total_tokens", "totalTokens", "total_token_count")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. Cached and reasoning tokens are part of the input and the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    @classmethod
    def read(cls, counts: Any) -> Usage:
        """Counts as a provider or LangChain names them; a missing total is input + output."""
        if not isinstance(counts, Mapping):
            return cls()
        read = _first(counts, _INPUT_KEYS)
        written = _first(counts, _OUTPUT_KEYS)
        return cls(read, written, _first(counts, _TOTAL_KEYS) or read + written)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
        )

    def __bool__(self) -> bool:
        return bool(self.input_tokens or self.output_tokens or self.total_tokens)

    def as_dict(self) -> dict[str, int]:
        """The counts under the names that a run's ``token_usage_by_model`` has."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
        }


def _first(counts: Mapping[Any, Any], keys: Iterable[str]) -> int:
    for key in keys:
        count = counts.get(key)
        if isinstance(count, int | float) and not isinstance(count, bool) and math.isfinite(count):
            return max(int(count), 0)
    return 0


def usage_of_call(messages: Iterable[Any], llm_output: Any) -> Usage:
    """All usage of one call: of every message it produced, else of the call as a whole.

    Each message's ``usage_metadata`` counts, else the ``token_usage`` of its
    ``response_metadata``; only when no message says anything, ``llm_output`` does.
    """
    total = Usage()
    for message in messages:
        usage = Usage.read(getattr(message, "usage_metadata", None))
        if not usage:
            usage = _reported(getattr(message, "response_metadata", None))
        total += usage
    return total or _reported(llm_output)


def _reported(metadata: Any) -> Usage:
    if not isinstance(metadata, Mapping):
        return Usage()
    return Usage.read(metadata.get("token_usage")) or Usage.read(metadata.get("usage"))


def model_of(messages: Iterable[Any], llm_output: Any = None) -> str:
    """The model that answered, or ``"unknown"``."""
    sources = [getattr(message, "response_metadata", None) for message in messages]
    for metadata in (*sources, llm_output):
        if isinstance(metadata, Mapping):
            for key in ("model_name", "model"):
                name = metadata.get(key)
                if isinstance(name, str) and name.strip():
                    return name.strip()
    return "unknown"


def caller_of(tags: Iterable[str] | None) -> str:
    """Who made a call: the innermost ``subagent:`` or ``middleware:`` tag, else the lead agent."""
    caller = LEAD_AGENT
    for tag in tags or ():
        if isinstance(tag, str) and tag.startswith((_SUBAGENT, _MIDDLEWARE)):
            caller = tag
    return caller


@dataclass(slots=True)
class RecentSet:
    """The last ``size`` things that were added, so that none of them counts twice."""

    size: int
    _items: dict[Hashable, None] = field(default_factory=dict)

    def add(self, item: Hashable) -> bool:
        """Whether the item is new."""
        if item in self._items:
            return False
        self._items[item] = None
        if len(self._items) > self.size:
            del self._items[next(iter(self._items))]
        return True

    def __contains__(self, item: Hashable) -> bool:
        return item in self._items


@dataclass(slots=True)
class UsageTally:
    """Sums of a run's token usage."""

    total: Usage = field(default_factory=Usage)
    by_model: dict[str, Usage] = field(default_factory=dict)
    by_caller: dict[str, int] = field(
        default_factory=lambda: {LEAD_AGENT: 0, "subagent": 0, "middleware": 0}
    )
    _counted: RecentSet = field(default_factory=lambda: RecentSet(65_536))

    def add(self, source_id: Hashable, caller: str, model: str, usage: Usage) -> bool:
        """Count a call once per source id; whether it was counted now."""
        if not usage or not self._counted.add(str(source_id)):
            return False
        self.total += usage
        self.by_model[model] = self.by_model.get(model, Usage()) + usage
        self.by_caller[_kind(caller)] += usage.total_tokens
        return True

    def add_records(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Count usage that subagents report; gives how many records were new.

        A record without a ``source_run_id`` cannot be told from one already counted: it is left
        out.
        """
        counted = 0
        for record in records:
            source_id = record.get("source_run_id")
            if not source_id:
                continue
            caller = record.get("caller")
            model = record.get("model_name")
            counted += self.add(
                source_id,
                caller if isinstance(caller, str) and caller else _SUBAGENT,
                model.strip() if isinstance(model, str) and model.strip() else "unknown",
                Usage.read(record),
            )
        return counted

    def as_completion(self) -> dict[str, Any]:
        """The token fields of ``update_run_completion``."""
        return {
            "total_input_tokens": self.total.input_tokens,
            "total_output_tokens": self.total.output_tokens,
            "total_tokens": self.total.total_tokens,
            "lead_agent_tokens": self.by_caller[LEAD_AGENT],
            "subagent_tokens": self.by_caller["subagent"],
            "middleware_tokens": self.by_caller["middleware"],
            "token_usage_by_model": {
                model: usage.as_dict() for model, usage in self.by_model.items()
            },
        }


def _kind(caller: str) -> str:
    if caller == LEAD_AGENT:
        return LEAD_AGENT
    return "middleware" if caller.startswith("middleware") else "subagent"
