"""Runs between DTOs and rows: what is checked on the way in, how a row becomes a :class:`Run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deerstore.json_text import encode_exact_json, encode_object, stored_object
from deerstore.repositories.checks import (
    optional_free_text,
    optional_identifier,
    optional_text,
)
from deerstore.repositories.contracts.runs import RUN_STATUSES, Run, RunCreate
from deerstore.repositories.rows import row_builder, stored_value
from deerstore.values import as_utc, choice, identifier, int64, summary, text, utcnow

__all__ = ["build_run", "checked_figures", "checked_run", "new_run", "stored_model_name"]

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


def checked_run(run: RunCreate) -> dict[str, Any]:
    """The parameters of an INSERT, by column."""
    now = utcnow()
    created, lease = run.created_time, run.lease_expires_at
    return {
        "run_id": identifier("run_id", run.run_id),
        "thread_id": identifier("thread_id", run.thread_id),
        "assistant_id": optional_identifier("assistant_id", run.assistant_id, 128),
        "user_id": optional_identifier("user_id", run.user_id),
        "status": choice("status", run.status, RUN_STATUSES),
        "operation_kind": text("operation_kind", run.operation_kind, 32),
        "idempotency_key": optional_text("idempotency_key", run.idempotency_key, 255),
        "model_name": stored_model_name(run.model_name),
        "multitask_strategy": text("multitask_strategy", run.multitask_strategy, 20),
        "metadata_json": encode_object("metadata", run.metadata),
        "kwargs_json": encode_exact_json("kwargs", run.kwargs, allow_nan=False),
        "error": optional_free_text("error", run.error),
        "stop_reason": optional_text("stop_reason", run.stop_reason, 50),
        "follow_up_to_run_id": optional_identifier("follow_up_to_run_id", run.follow_up_to_run_id),
        "owner_worker_id": optional_identifier("owner_worker_id", run.owner_worker_id, 128),
        "lease_expires_at": None if lease is None else as_utc("lease_expires_at", lease),
        "created_at": now if created is None else as_utc("created_time", created),
        "updated_at": now,
    }


def new_run(params: dict[str, Any]) -> Run:
    """The run that an INSERT with these parameters has made, as a read would give it."""
    p = params
    return build_run(
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
            p["metadata_json"],
            p["kwargs_json"],
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
            None,
            p["follow_up_to_run_id"],
            p["owner_worker_id"],
            p["lease_expires_at"],
            None,
            None,
            p["created_at"],
            p["updated_at"],
        )
    )


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
