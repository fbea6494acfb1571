"""Feedback: thumbs up and thumbs down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, SkipValidation

from deerstore.repositories.contracts.types import CREATED, STORED, Id, IdLike

__all__ = ["Feedback", "FeedbackCreate", "FeedbackOrder", "FeedbackRepository"]

FeedbackOrder = Literal["newest", "oldest"]


class FeedbackCreate(BaseModel):
    """A rating to be stored: +1 or -1, which the repository checks."""

    model_config = CREATED

    feedback_id: Id
    run_id: Id
    thread_id: Id
    rating: Annotated[int, SkipValidation]
    user_id: Id | None = None
    message_id: Id | None = None
    comment: str | None = None


class Feedback(BaseModel):
    """A rating as it is stored. ``created_at`` is the time of its last change, in UTC."""

    model_config = STORED

    feedback_id: str
    run_id: str
    thread_id: str
    user_id: str | None
    message_id: str | None
    rating: int
    comment: str | None
    created_at: datetime


@runtime_checkable
class FeedbackRepository(Protocol):
    """Storage of ratings.

    There is at most one per thread, run and user, where "no user" is a user of its own. A filter
    by ``user_id`` never matches a row without a user; ``None`` means "do not filter".
    """

    async def create_feedback(self, feedback: FeedbackCreate) -> Feedback:
        """Store a rating.

        Raises:
            DuplicateIdError: the feedback_id is taken.
            AlreadyExistsError: the user rated this run already.
            InvalidValueError: the rating is neither +1 nor -1.
        """
        ...

    async def upsert_feedback(
        self, feedback: FeedbackCreate, *, keep_message: bool = False
    ) -> Feedback:
        """Store a user's rating of a run, or change the one that is there.

        The first ``feedback_id`` stays; ``rating``, ``comment``, ``message_id`` and the time are
        replaced, with ``keep_message`` an existing ``message_id`` stays as well.

        Raises:
            DuplicateIdError: the feedback_id belongs to the rating of another run or user.
            InvalidValueError: the rating is neither +1 nor -1.
        """
        ...

    async def get_feedback(
        self, feedback_id: IdLike, *, user_id: IdLike | None = None
    ) -> Feedback | None:
        """One rating by its id."""
        ...

    async def list_feedback_by_run(
        self,
        run_id: IdLike,
        *,
        thread_id: IdLike | None = None,
        user_id: IdLike | None = None,
        limit: int | None = None,
        order: FeedbackOrder = "newest",
    ) -> list[Feedback]:
        """The ratings of a run, by created, then feedback_id; ``limit=None`` gives all."""
        ...

    async def list_feedback_by_thread(
        self,
        thread_id: IdLike,
        *,
        user_id: IdLike | None = None,
        limit: int | None = None,
        order: FeedbackOrder = "newest",
    ) -> list[Feedback]:
        """The ratings of a thread, by created, then feedback_id; ``limit=None`` gives all."""
        ...

    async def latest_feedback_by_run_ids(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        user_id: IdLike | None = None,
    ) -> dict[str, Feedback]:
        """The newest rating of each of the given runs that has one, by run_id."""
        ...

    async def latest_feedback_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> dict[str, Feedback]:
        """The newest rating of each of the thread's runs that has one, by run_id."""
        ...

    async def delete_feedback(self, feedback_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        """Remove one rating. False: there is none."""
        ...

    async def delete_feedback_by_run(
        self, thread_id: IdLike, run_id: IdLike, *, user_id: IdLike | None = None
    ) -> bool:
        """Remove a run's ratings. False: there is none."""
        ...

    async def delete_feedback_of_nobody(self, thread_id: IdLike, run_id: IdLike) -> bool:
        """Remove a run's rating that has no user. False: there is none."""
        ...

    async def delete_feedback_by_thread(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        """Remove a thread's ratings; gives how many there were."""
        ...

    async def aggregate_feedback_by_run(
        self,
        thread_or_run: IdLike | None = None,
        /,
        run_id: IdLike | None = None,
        *,
        thread_id: IdLike | None = None,
    ) -> dict[str, str | int]:
        """``{run_id, total, positive, negative}`` of a run.

        Called with the thread and the run, as ``(thread_id, run_id)``, or, since a run's id is
        unique, with the run and at will ``thread_id=…``.
        """
        ...

    async def count_feedback(self) -> int:
        """How many ratings there are."""
        ...
