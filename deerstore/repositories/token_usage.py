"""The sums over a thread's runs, by model and by caller."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from deerstore.json_text import stored_object
from deerstore.repositories.contracts.runs import ModelUsage, TokenUsage

__all__ = ["summed"]


def summed(rows: Iterable[Sequence[Any]]) -> TokenUsage:
    """The sums of rows as ``runs.list_token_usage`` gives them.

    They are summed here and not in SQL, because a map may hold anything: what is not a number
    counts as zero there, and never fails.
    """
    total = total_input = total_output = runs = 0
    lead = subagent = middleware = 0
    by_model: dict[str, ModelUsage] = {}
    for model, tokens, inputs, outputs, by_lead, by_subagent, by_middleware, stored in rows:
        runs += 1
        whole = _number(tokens)
        total += whole
        total_input += _number(inputs)
        total_output += _number(outputs)
        lead += _number(by_lead)
        subagent += _number(by_subagent)
        middleware += _number(by_middleware)
        usage = stored_object(stored)
        if usage:
            for name, figures in usage.items():
                used = figures.get("total_tokens") if isinstance(figures, dict) else None
                _add(by_model, name, _number(used))
        else:
            # What is not text was stored by another writer.
            _add(by_model, model if model and isinstance(model, str) else "unknown", whole)
    return {
        "total_tokens": total,
        "total_input_tokens": total_input,
        "total_output_tokens": total_output,
        "total_runs": runs,
        # By name, since the rows come in no order.
        "by_model": dict(sorted(by_model.items())),
        "by_caller": {"lead_agent": lead, "subagent": subagent, "middleware": middleware},
    }


def _add(by_model: dict[str, ModelUsage], model: str, tokens: int) -> None:
    entry = by_model.get(model)
    if entry is None:
        by_model[model] = {"tokens": tokens, "runs": 1}
    else:
        entry["tokens"] += tokens
        entry["runs"] += 1


def _number(value: Any) -> int:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and math.isfinite(value) else 0
