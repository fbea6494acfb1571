"""The feedback repository over any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from deerstore.database import Executor
from deerstore.errors import (
    AlreadyExistsError,
    DuplicateIdError,
    InvalidValueError,
    RetryableError,
)
from deerstore.repositories.checks import (
    optional_free_text,
    optional_identifier,
    optional_limit,
    owned,
)
from deerstore.repositories.contracts.feedback import (
    Feedback,
    FeedbackCreate,
    FeedbackOrder,
    FeedbackRepository,
)
from deerstore.repositories.contracts.types import IdLike
from deerstore.repositories.rows import row_builder
from deerstore.repositories.statements import statement
from deerstore.values import choice, identifier, identifiers, utcnow

__all__ = ["SqlFeedbackRepository", "build_feedback_repository"]

FIELDS = (
    "feedback_id",
    "run_id",
    "thread_id",
    "user_id",
    "message_id",
    "rating",
    "comment",
    "created_at",
)
_build: Callable[[Any], Feedback] = row_builder(Feedback, FIELDS)
_ATTEMPTS = 3


def build_feedback_repository(executor: Executor) -> FeedbackRepository:
    """The ratings over ``executor``: a ``Database`` commits each call at once."""
    return SqlFeedbackRepository(executor)


class SqlFeedbackRepository:
    """:class:`FeedbackRepository` in SQL."""

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create_feedback(self, feedback: FeedbackCreate) -> Feedback:
        params = _checked(feedback)
        keys = {key: params[key] for key in ("feedback_id", "run_id", "thread_id", "user_id")}
        for _ in range(_ATTEMPTS):
            if await self._executor.execute(statement("feedback.create_feedback"), **params):
                return _build([params[field] for field in FIELDS])
            (conflicts,) = await self._executor.fetch_tuples(
                statement("feedback.find_create_conflicts"), keys
            )
            id_taken, rated = conflicts
            if id_taken:
                raise _id_taken(params)
            if rated:
                raise AlreadyExistsError(
                    f"run {params['run_id']!r} has feedback of this user already"
                )
            # What stood in the way is gone again: another try.
        raise RetryableError(f"feedback {params['feedback_id']!r} kept meeting others")

    async def upsert_feedback(
        self, feedback: FeedbackCreate, *, keep_message: bool = False
    ) -> Feedback:
        params = _checked(feedback)
        name = "feedback.upsert_feedback"
        if params["user_id"] is None:
            del params["user_id"]
            name = "feedback.upsert_feedback_of_nobody"
        query = statement(name, message="keep" if keep_message else "replace")
        rows = await self._executor.fetch_tuples(query, params)
        if not rows:
            raise _id_taken(params)
        return _build(rows[0])

    async def get_feedback(
        self, feedback_id: IdLike, *, user_id: IdLike | None = None
    ) -> Feedback | None:
        params: dict[str, Any] = {"feedback_id": identifier("feedback_id", feedback_id)}
        owner = owned(params, user_id)
        rows = await self._executor.fetch_tuples(
            statement("feedback.get_feedback", owner=owner), params
        )
        return _build(rows[0]) if rows else None

    async def list_feedback_by_run(
        self,
        run_id: IdLike,
        *,
        thread_id: IdLike | None = None,
        user_id: IdLike | None = None,
        limit: int | None = None,
        order: FeedbackOrder = "newest",
    ) -> list[Feedback]:
        params: dict[str, Any] = {
            "run_id": identifier("run_id", run_id),
            "limit": optional_limit(limit),
        }
        if thread_id is not None:
            params["thread_id"] = identifier("thread_id", thread_id)
        query = statement(
            "feedback.list_feedback_by_run",
            thread=thread_id is not None,
            owner=owned(params, user_id),
            order=choice("order", order, ("newest", "oldest")),
        )
        return [_build(row) for row in await self._executor.fetch_tuples(query, params)]

    async def list_feedback_by_thread(
        self,
        thread_id: IdLike,
        *,
        user_id: IdLike | None = None,
        limit: int | None = None,
        order: FeedbackOrder = "newest",
    ) -> list[Feedback]:
        params: dict[str, Any] = {
            "thread_id": identifier("thread_id", thread_id),
            "limit": optional_limit(limit),
        }
        query = statement(
            "feedback.list_feedback_by_thread",
            owner=owned(params, user_id),
            order=choice("order", order, ("newest", "oldest")),
        )
        return [_build(row) for row in await self._executor.fetch_tuples(query, params)]

    async def latest_feedback_by_run_ids(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        user_id: IdLike | None = None,
    ) -> dict[str, Feedback]:
        wanted = identifiers("run_ids", run_ids)
        return await self._latest(thread_id, user_id, wanted) if wanted else {}

    async def latest_feedback_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> dict[str, Feedback]:
        return await self._latest(thread_id, user_id, None)

    async def delete_feedback(self, feedback_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        params: dict[str, Any] = {"feedback_id": identifier("feedback_id", feedback_id)}
        owner = owned(params, user_id)
        query = statement("feedback.delete_feedback", owner=owner)
        return await self._executor.execute(query, **params) > 0

    async def delete_feedback_by_run(
        self, thread_id: IdLike, run_id: IdLike, *, user_id: IdLike | None = None
    ) -> bool:
        params = _place(thread_id, run_id)
        owner = "user" if owned(params, user_id) else "any"
        query = statement("feedback.delete_feedback_by_run", owner=owner)
        return await self._executor.execute(query, **params) > 0

    async def delete_feedback_of_nobody(self, thread_id: IdLike, run_id: IdLike) -> bool:
        query = statement("feedback.delete_feedback_by_run", owner="nobody")
        return await self._executor.execute(query, **_place(thread_id, run_id)) > 0

    async def delete_feedback_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        owner = owned(params, user_id)
        query = statement("feedback.delete_feedback_by_thread", owner=owner)
        return await self._executor.execute(query, **params)

    async def aggregate_feedback_by_run(
        self,
        thread_or_run: IdLike | None = None,
        /,
        run_id: IdLike | None = None,
        *,
        thread_id: IdLike | None = None,
    ) -> dict[str, str | int]:
        if run_id is None:
            run_id = thread_or_run
        elif thread_or_run is not None:
            thread_id = thread_or_run
        if run_id is None:
            raise InvalidValueError("run_id is missing", field="run_id")
        params: dict[str, Any] = {"run_id": identifier("run_id", run_id)}
        if thread_id is not None:
            params["thread_id"] = identifier("thread_id", thread_id)
        query = statement("feedback.aggregate_feedback_by_run", thread=thread_id is not None)
        ((total, positive, negative),) = await self._executor.fetch_tuples(query, params)
        return {
            "run_id": params["run_id"],
            "total": total,
            "positive": positive,
            "negative": negative,
        }

    async def count_feedback(self) -> int:
        return int(await self._executor.fetch_value(statement("feedback.count_feedback")))

    async def _latest(
        self, thread_id: IdLike, user_id: IdLike | None, run_ids: list[str] | None
    ) -> dict[str, Feedback]:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        if run_ids is not None:
            params["run_ids"] = run_ids
        query = statement(
            "feedback.latest_feedback",
            runs="all" if run_ids is None else "given",
            owner=owned(params, user_id),
        )
        rows = await self._executor.fetch_tuples(query, params)
        return {feedback.run_id: feedback for feedback in map(_build, rows)}


def _checked(feedback: FeedbackCreate) -> dict[str, Any]:
    rating = feedback.rating
    if type(rating) is not int or rating not in (1, -1):
        raise InvalidValueError("rating must be +1 or -1", field="rating")
    return {
        "feedback_id": identifier("feedback_id", feedback.feedback_id),
        "run_id": identifier("run_id", feedback.run_id),
        "thread_id": identifier("thread_id", feedback.thread_id),
        "user_id": optional_identifier("user_id", feedback.user_id),
        "message_id": optional_identifier("message_id", feedback.message_id),
        "rating": rating,
        "comment": optional_free_text("comment", feedback.comment),
        "created_at": utcnow(),
    }


def _place(thread_id: IdLike, run_id: IdLike) -> dict[str, Any]:
    return {
        "thread_id": identifier("thread_id", thread_id),
        "run_id": identifier("run_id", run_id),
    }


def _id_taken(params: dict[str, Any]) -> DuplicateIdError:
    return DuplicateIdError(f"there is feedback {params['feedback_id']!r} already")
