"""Feedback under a gateway's names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from deerstore.gateway.context import CONTEXT_USER, ContextUser, resolve_user_id
from deerstore.gateway.stores.adapters import StorageFeedbackRepository
from deerstore.gateway.stores.binding import Bound, SessionFactory
from deerstore.gateway.stores.rows import as_row, as_rows, as_texts, invalid
from deerstore.repositories import FeedbackCreate
from deerstore.repositories.contracts.types import IdLike

__all__ = ["StorageFeedbackStore"]

User = IdLike | ContextUser | None
Row = dict[str, Any]


class StorageFeedbackStore:
    """Ratings of runs, +1 or -1; lists are oldest first."""

    def __init__(self, session_factory: SessionFactory) -> None:
        self._feedback = Bound(StorageFeedbackRepository(session_factory))

    async def create(
        self,
        *,
        run_id: IdLike,
        thread_id: IdLike,
        rating: int,
        user_id: User = CONTEXT_USER,
        message_id: IdLike | None = None,
        comment: str | None = None,
    ) -> Row:
        """Store a rating.

        Raises:
            AlreadyExistsError: the user rated this run already.
            InvalidValueError: the rating is neither +1 nor -1.
        """
        owner = resolve_user_id(user_id)
        rated = _new(run_id, thread_id, rating, owner, message_id, comment)
        return as_row(await self._feedback().create_feedback(rated))

    async def upsert(
        self,
        *,
        run_id: IdLike,
        thread_id: IdLike,
        rating: int,
        user_id: User = CONTEXT_USER,
        message_id: IdLike | None = None,
        comment: str | None = None,
    ) -> Row:
        """Store a user's rating of a run, or change the one that is there; the first
        ``feedback_id`` and ``message_id`` stay.
        """
        owner = resolve_user_id(user_id)
        rated = _new(run_id, thread_id, rating, owner, message_id, comment)
        return as_row(await self._feedback().upsert_feedback(rated, keep_message=True))

    async def get(self, feedback_id: IdLike, *, user_id: User = CONTEXT_USER) -> Row | None:
        """One rating."""
        found = await self._feedback().get_feedback(feedback_id, user_id=resolve_user_id(user_id))
        return None if found is None else as_row(found)

    async def list_by_run(
        self,
        thread_id: IdLike,
        run_id: IdLike,
        *,
        limit: int = 100,
        user_id: User = CONTEXT_USER,
    ) -> list[Row]:
        """The ratings of a run."""
        return as_rows(
            await self._feedback().list_feedback_by_run(
                run_id,
                thread_id=thread_id,
                user_id=resolve_user_id(user_id),
                limit=limit,
                order="oldest",
            )
        )

    async def list_by_thread(
        self, thread_id: IdLike, *, limit: int = 100, user_id: User = CONTEXT_USER
    ) -> list[Row]:
        """The ratings of a thread."""
        return as_rows(
            await self._feedback().list_feedback_by_thread(
                thread_id, user_id=resolve_user_id(user_id), limit=limit, order="oldest"
            )
        )

    async def list_by_thread_grouped(
        self, thread_id: IdLike, *, user_id: User = CONTEXT_USER
    ) -> dict[str, Row]:
        """The newest rating of each of the thread's runs that has one, by run_id."""
        found = await self._feedback().latest_feedback_by_thread(
            thread_id, user_id=resolve_user_id(user_id)
        )
        return {run_id: as_row(rating) for run_id, rating in found.items()}

    async def list_by_run_ids(
        self, thread_id: IdLike, run_ids: Iterable[IdLike], *, user_id: User = CONTEXT_USER
    ) -> dict[str, Row]:
        """The newest rating of each of the given runs that has one, by run_id."""
        found = await self._feedback().latest_feedback_by_run_ids(
            thread_id, as_texts(run_ids), user_id=resolve_user_id(user_id)
        )
        return {run_id: as_row(rating) for run_id, rating in found.items()}

    async def delete(self, feedback_id: IdLike, *, user_id: User = CONTEXT_USER) -> bool:
        """Remove one rating. False: there is none."""
        return await self._feedback().delete_feedback(feedback_id, user_id=resolve_user_id(user_id))

    async def delete_by_run(
        self, *, thread_id: IdLike, run_id: IdLike, user_id: User = CONTEXT_USER
    ) -> bool:
        """Remove a user's rating of a run; ``None`` removes the one that has no user."""
        owner = resolve_user_id(user_id)
        if owner is None:
            return await self._feedback().delete_feedback_of_nobody(thread_id, run_id)
        return await self._feedback().delete_feedback_by_run(thread_id, run_id, user_id=owner)

    async def aggregate_by_run(self, thread_id: IdLike, run_id: IdLike) -> dict[str, str | int]:
        """``{run_id, total, positive, negative}``."""
        return await self._feedback().aggregate_feedback_by_run(thread_id, run_id)


def _new(
    run_id: IdLike,
    thread_id: IdLike,
    rating: int,
    user_id: str | None,
    message_id: IdLike | None,
    comment: str | None,
) -> FeedbackCreate:
    try:
        return FeedbackCreate.model_validate(
            {
                "feedback_id": str(uuid.uuid4()),
                "run_id": run_id,
                "thread_id": thread_id,
                "rating": rating,
                "user_id": user_id,
                "message_id": message_id,
                "comment": comment,
            }
        )
    except ValidationError as error:
        raise invalid(error) from None
