"""Rows that another writer left: DeerFlow's, before an adoption and whenever it runs again.

DeerFlow knows nothing of the columns that are deerstore's own. Its rows have NULL there, and each
``setup()`` fills them in; with nothing to do that is a few short reads. What the triggers keep (the
index of thread metadata) needs no second look.

Two kinds of rows cannot both stay, and are resolved by a rule and named in the log:

* of several active runs of a thread the newest keeps the slot, the others become ``error``;
* of several ratings without a user for one run the newest stays.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from deerstore.errors import SchemaError
from deerstore.values import fold_email, utcnow

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.schema.engines import SchemaEngine
    from deerstore.schema.shape import ActualTable

__all__ = ["SUPERSEDED", "reconcile_rows", "unresolved"]

logger = logging.getLogger("deerstore.schema")

SUPERSEDED = "Superseded: a newer run of this thread was active when the database was set up."
"""The error text of an active run that had to give way to a newer one."""

_KEY_LENGTH = 320
_ATTEMPTS = 5
_BATCH = 1000


def unresolved(engine: SchemaEngine, shape: dict[str, ActualTable]) -> list[str]:
    """The rows that the next ``setup()`` will resolve, one line each; reads only."""
    lines = []
    if "runs" in shape:
        known = "admitted" in shape["runs"].columns
        name = "schema.superseded_runs" if known else "schema.superseded_legacy_runs"
        for run_id, thread_id, status in engine.query(name):
            lines.append(_run_line(run_id, thread_id, status))
    if "feedback" in shape:
        known = "admitted" in shape["feedback"].columns
        name = "schema.duplicate_feedback" if known else "schema.duplicate_legacy_feedback"
        for feedback_id, thread_id, run_id in engine.query(name):
            lines.append(_feedback_line(feedback_id, thread_id, run_id))
    return lines


def reconcile_rows(engine: SchemaEngine) -> list[str]:
    """Fill in what other writers do not know of. Returns what was resolved, one line each."""
    return [
        *_admit(engine, _admit_runs, "runs"),
        *_admit(engine, _admit_feedback, "ratings"),
        *_key_users(engine),
    ]


def _admit(
    engine: SchemaEngine, admit: Callable[[SchemaEngine], list[str]], what: str
) -> list[str]:
    for _ in range(_ATTEMPTS):
        # A gateway that is still running may put a row in between: look again.
        with suppress(engine.driver.IntegrityError):
            lines = engine.in_transaction(partial(admit, engine), f"the {what} of another writer")
            for line in lines:
                logger.warning("%s", line)
            return lines
    raise SchemaError(
        f"the {what} of another writer could not be admitted, because new ones kept coming in; "
        "stop the other gateway and start again"
    )


def _admit_runs(engine: SchemaEngine) -> list[str]:
    lines = []
    for run_id, thread_id, status in engine.query("schema.superseded_runs"):
        engine.query("schema.supersede_run", run_id=run_id, error=SUPERSEDED, now=utcnow())
        lines.append(_run_line(run_id, thread_id, status))
    engine.query("schema.admit_foreign_runs")
    return lines


def _admit_feedback(engine: SchemaEngine) -> list[str]:
    lines = []
    for feedback_id, thread_id, run_id in engine.query("schema.duplicate_feedback"):
        engine.query("schema.drop_duplicate_feedback", feedback_id=feedback_id)
        lines.append(_feedback_line(feedback_id, thread_id, run_id))
    engine.query("schema.admit_foreign_feedback")
    return lines


def _key_users(engine: SchemaEngine) -> list[str]:
    rows = engine.query("schema.unkeyed_users")
    stale = [(user, key) for user, email, key in rows if key not in (None, fold_email(email))]
    for user, key in stale:
        engine.query("schema.unkey_user", id=user, email_key=key)
    missing = [(user, email) for user, email, key in rows if key != fold_email(email)]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        engine.in_transaction(partial(_key_batch, engine, batch), "users' e-mails")
    lines = []
    if missing:
        for user, email, key in engine.query("schema.unkeyed_users"):
            if key is None:
                lines.append(_user_line(user, email))
                logger.warning("%s", lines[-1])
    return lines


def _key_batch(engine: SchemaEngine, batch: list[tuple[str, str]]) -> None:
    for user, email in batch:
        key = fold_email(email)
        if len(key) <= _KEY_LENGTH:
            engine.query("schema.key_user", id=user, email=email, email_key=key)


def _user_line(user: str, email: str) -> str:
    # Lower case may be longer than what it was made of.
    if len(fold_email(email)) > _KEY_LENGTH:
        return (
            f"user {user} has an e-mail that is longer than {_KEY_LENGTH} characters, in lower "
            "case at least; it is kept, but no search by e-mail finds it"
        )
    return (
        f"user {user} has an e-mail that differs from another account's only by case; "
        "both are kept, and only the exact spelling finds this one"
    )


def _run_line(run_id: str, thread_id: str, status: str) -> str:
    return (
        f"run {run_id} of thread {thread_id} is {status} beside a newer active run: "
        "it becomes error"
    )


def _feedback_line(feedback_id: str, thread_id: str, run_id: str) -> str:
    return (
        f"feedback {feedback_id} of thread {thread_id}, run {run_id} has no user, and a newer one "
        "exists: it is removed"
    )
