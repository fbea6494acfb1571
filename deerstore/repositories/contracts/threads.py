"""Threads: which conversations there are, and whose."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from deerstore.repositories.contracts.types import CREATED, STORED, Id, IdLike, JsonObject

__all__ = ["ThreadMeta", "ThreadMetaCreate", "ThreadMetaRepository", "ThreadOrder"]

ThreadOrder = Literal["created", "recent"]
"""``created``: created, then thread_id, descending. ``recent``: pinned threads first, then
updated, then thread_id, descending; pinned is metadata ``deerflow_pinned`` being JSON true."""


class ThreadMetaCreate(BaseModel):
    """A thread to be stored. ``status`` is free text; ``metadata`` is a strict JSON object."""

    model_config = CREATED

    thread_id: Id
    assistant_id: Id | None = None
    user_id: Id | None = None
    display_name: str | None = None
    status: str = "idle"
    metadata: JsonObject = Field(default_factory=dict)


class ThreadMeta(BaseModel):
    """A thread as it is stored; its times are in UTC."""

    model_config = STORED

    thread_id: str
    assistant_id: str | None
    user_id: str | None
    display_name: str | None
    status: str
    metadata: dict[str, Any]
    created_time: datetime
    updated_time: datetime


@runtime_checkable
class ThreadMetaRepository(Protocol):
    """Storage of threads.

    A thread without an owner is shared. A filter by ``user_id`` never matches one; ``None`` means
    "do not filter". Every update makes the thread recent, where it does not say otherwise.

    All methods raise :class:`~deerstore.errors.InvalidValueError` for a value that breaks a rule
    of its field, before any I/O.
    """

    async def create_thread_meta(self, thread: ThreadMetaCreate) -> ThreadMeta:
        """Store a new thread.

        Raises:
            DuplicateIdError: the thread_id is taken.
        """
        ...

    async def get_thread_meta(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> ThreadMeta | None:
        """One thread by its id."""
        ...

    async def update_thread_meta(
        self,
        thread_id: IdLike,
        *,
        display_name: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: IdLike | None = None,
    ) -> bool:
        """Change what is given; ``metadata`` replaces. False: there is no such thread."""
        ...

    async def update_display_name(
        self, thread_id: IdLike, display_name: str | None, *, user_id: IdLike | None = None
    ) -> bool:
        """Name a thread; ``None`` takes its name away. False: there is no such thread."""
        ...

    async def update_status(
        self, thread_id: IdLike, status: str, *, user_id: IdLike | None = None
    ) -> bool:
        """Set the status. False: there is no such thread."""
        ...

    async def merge_thread_metadata(
        self,
        thread_id: IdLike,
        patch: Mapping[str, Any],
        *,
        touch: bool = True,
        user_id: IdLike | None = None,
    ) -> bool:
        """Set the keys of ``patch``, keep all others. False: there is no such thread.

        Atomic per key across processes. Shallow: a nested object is replaced; a null is stored as
        null. ``touch=False`` leaves the recency as it is.
        """
        ...

    async def update_owner(
        self,
        thread_id: IdLike,
        owner_user_id: IdLike | None,
        *,
        user_id: IdLike | None = None,
    ) -> bool:
        """Give the thread to a user; ``None`` makes it shared. ``user_id`` is the owner until now.

        False: there is no such thread.
        """
        ...

    async def check_access(
        self, thread_id: IdLike, user_id: IdLike | None, *, require_existing: bool = False
    ) -> bool:
        """Whether the user may use the thread: it is theirs or shared.

        A thread that is not there may be used unless ``require_existing``. ``user_id=None`` asks
        for nobody in particular and may use every thread.
        """
        ...

    async def delete_thread(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        """Delete the row of the thread; its runs, events and feedback stay.

        False: there is no such thread.
        """
        ...

    async def search_threads(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        user_id: IdLike | None = None,
        assistant_id: IdLike | None = None,
        limit: int = 100,
        offset: int = 0,
        order: ThreadOrder = "created",
    ) -> list[ThreadMeta]:
        """A page of the threads that match everything given.

        ``metadata`` is an AND of typed equalities on top-level keys, with JSON's types: ``True``
        is not ``1``, ``1`` is not ``"1"``, null is not a missing key. An ``int`` matches what was
        written as an integer, a ``float`` any number of its value. A key is 1 to 64 of ASCII
        letters, digits, ``_`` and ``-``; a value is ``None``, ``bool``, a signed 64-bit ``int``, a
        finite ``float`` or ``str``. What is neither is skipped with a warning in the log.

        Raises:
            InvalidMetadataFilterError: nothing of ``metadata`` could be used.
        """
        ...

    async def count_threads(self) -> int:
        """How many threads there are."""
        ...
