"""Runs between DTOs and rows: what is checked on the way in, how a row becomes a :class:`Run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from deerstore.json_text import (
    encode_exact_json_and_copy,
    encode_object,
    encode_object_and_copy,
    stored_object,
)
from deerstore.repositories.checks import (
    optional_free_text,
    optional_identifier,
    optional_text,
)
from deerstore.repositories.contracts.runs import RUN_STATUSES, Run, RunCreate
from deerstore.repositories.rows import row_builder, stored_value
from deerstore.values import as_utc, choice, identifier, int64, summary, text, utcnow

__all__ = ["NewRun", "build_run", "checked_figures", "checked_run", "stored_model_name"]

_FIELDS = (
    "run_id",
    "thread_id",
    "assistant_id",
    "user_id",
    "status",
    "operation_kind",
    "idempotency_key",
    "model_name",
    "multitask_strategy",
    "metadata",
    "kwargs",
    "error",
    "stop_reason",
    "message_count",
    "first_human_message",
    "last_ai_message",
    "total_input_tokens",
    "total_output_tokens",
    "total_tokens",
    "llm_call_count",
    "lead_agent_tokens",
    "subagent_tokens",
    "middleware_tokens",
    "token_usage_by_model",
    "follow_up_to_run_id",
    "owner_worker_id",
    "lease_expires_at",
    "cancel_action",
    "cancel_requested_at",
    "created_time",
    "updated_time",
)
_FIGURES: dict[str, Callable[[str, Any], Any]] = {
    "message_count": int64,
    "first_human_message": summary,
    "last_ai_message": summary,
    "total_input_tokens": int64,
    "total_output_tokens": int64,
    "total_tokens": int64,
    "llm_call_count": int64,
    "lead_agent_tokens": int64,
    "subagent_tokens": int64,
    "middleware_tokens": int64,
    "token_usage_by_model": encode_object,
}

build_run: Callable[[Any], Run] = row_builder(
    Run,
    _FIELDS,
    {
        "metadata": stored_object,
        "kwargs": stored_value,
        "token_usage_by_model": stored_object,
    },
)
"""A :class:`Run` from the columns of the queries that give runs, in their order."""
_build_new: Callable[[Any], Run] = row_builder(Run, _FIELDS)


class NewRun(NamedTuple):
    """A run that is to be stored."""

    params: dict[str, Any]
    """The parameters of an INSERT, by column."""
    metadata: dict[str, Any]
    kwargs: Any
    """What a later read will give. Copied, since the caller may change what it gave."""

    def stored(self, lease_expires_at: datetime | None) -> Run:
        """The run that the INSERT has made, as a read would give it."""
        p = self.params
        return _build_new(
            (
                p["run_id"],
                p["thread_id"],
                p["assistant_id"],
                p["user_id"],
                p["status"],
                p["operation_kind"],
                p["idempotency_key"],
                p["model_name"],
                p["multitask_strategy"],
                self.metadata,
                self.kwargs,
                p["error"],
                p["stop_reason"],
                0,
                None,
                None,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                {},
                p["follow_up_to_run_id"],
                p["owner_worker_id"],
                lease_expires_at,
                None,
                None,
                p["created_at"],
                p["updated_at"],
            )
        )


def checked_run(run: RunCreate) -> NewRun:
    """The run with its values checked."""
    now = utcnow()
    created, lease = run.created_time, run.lease_expires_at
    metadata_json, metadata = encode_object_and_copy("metadata", run.metadata)
    kwargs_json, kwargs = encode_exact_json_and_copy("kwargs", run.kwargs, allow_nan=False)
    params = {
        "run_id": identifier("run_id", run.run_id),
        "thread_id": identifier("thread_id", run.thread_id),
        "assistant_id": optional_identifier("assistant_id", run.assistant_id, 128),
        "user_id": optional_identifier("user_id", run.user_id),
        "status": choice("status", run.status, RUN_STATUSES),
        "operation_kind": text("operation_kind", run.operation_kind, 32),
        "idempotency_key": optional_text("idempotency_key", run.idempotency_key, 255),
        "model_name": stored_model_name(run.model_name),
        "multitask_strategy": text("multitask_strategy", run.multitask_strategy, 20),
        "metadata_json": metadata_json,
        "kwargs_json": kwargs_json,
        "error": optional_free_text("error", run.error),
        "stop_reason": optional_text("stop_reason", run.stop_reason, 50),
        "follow_up_to_run_id": optional_identifier("follow_up_to_run_id", run.follow_up_to_run_id),
        "owner_worker_id": optional_identifier("owner_worker_id", run.owner_worker_id, 128),
        "lease_expires_at": None if lease is None else as_utc("lease_expires_at", lease),
        "created_at": now if created is None else as_utc("created_time", created),
        "updated_at": now,
    }
    return NewRun(params, metadata, kwargs)


def stored_model_name(value: str | None) -> str | None:
    """A model's name as it is stored: stripped and cut to 128 characters."""
    return None if value is None else text("model_name", text("model_name", value).strip()[:128])


def checked_figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of :class:`RunFigures`, all of them; ``None`` is "keep what is stored"."""
    params = {
        name: None if (value := figures.get(name)) is None else check(name, value)
        for name, check in _FIGURES.items()
    }
    unknown = next((name for name in figures if name not in params), None)
    if unknown is not None:
        raise TypeError(f"a run has no figure {unknown!r}; it has {', '.join(params)}")
    return params
