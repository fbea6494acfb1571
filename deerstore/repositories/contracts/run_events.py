"""Run events: the ordered stream of what happened in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from deerstore.repositories.contracts.types import CREATED, STORED, Id, IdLike, JsonObject, Time

__all__ = ["RunEvent", "RunEventCreate", "RunEventRepository"]


class RunEventCreate(BaseModel):
    """An event to be appended.

    ``content`` is any JSON-like value and comes back exactly as it was; ``metadata`` is a strict
    JSON object. Without ``created_at`` the event happens now.
    """

    model_config = CREATED

    thread_id: Id
    run_id: Id
    user_id: Id | None = None
    event_type: str
    category: str
    content: Any = ""
    metadata: JsonObject = Field(default_factory=dict)
    created_at: Time | None = None


class RunEvent(BaseModel):
    """An event as it is stored. ``seq`` counts within its thread, ``created_at`` is in UTC."""

    model_config = STORED

    thread_id: str
    run_id: str
    user_id: str | None
    event_type: str
    category: str
    content: Any
    metadata: dict[str, Any]
    seq: int
    created_at: datetime


@runtime_checkable
class RunEventRepository(Protocol):
    """Storage of events.

    ``seq`` belongs to the thread: 1, 2, 3, … on a fresh one, rising in the order of the commits,
    never used twice, also after events were deleted. Appending is safe from any number of tasks
    and processes.

    A *page* is a list in rising ``seq``. Without a cursor it is the newest ``limit``, with
    ``before_seq`` the newest below it, with ``after_seq`` the oldest above it, with both the range
    between them from its low end. ``limit=0`` gives nothing. A filter by ``user_id`` never matches
    an event without an owner; ``None`` means "do not filter".

    All methods raise :class:`~deerstore.errors.InvalidValueError` for a value that breaks a rule
    of its field, before any I/O.
    """

    async def append(self, event: RunEventCreate) -> RunEvent:
        """Append one event."""
        ...

    async def append_batch(self, events: Sequence[RunEventCreate]) -> list[RunEvent]:
        """Append events in their order, all or nothing; an empty batch gives an empty list.

        A batch for one thread leaves no gap. In a batch for several the numbers rise over the
        whole batch, from above the highest ``seq`` of all its threads.

        Raises:
            InvalidValueError: ``index`` is the position of the event that was refused. Nothing
                was stored.
        """
        ...

    async def append_if_absent(self, event: RunEventCreate) -> tuple[RunEvent, bool]:
        """Append the event unless the run has one of its type in this thread.

        Returns the event that is there then, the oldest of several, and whether it is the new one.
        """
        ...

    async def list_messages(
        self,
        thread_id: IdLike,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
        user_id: IdLike | None = None,
    ) -> list[RunEvent]:
        """A page of the thread's events of category ``message``."""
        ...

    async def list_messages_by_run(
        self,
        thread_id: IdLike,
        run_id: IdLike,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
        user_id: IdLike | None = None,
    ) -> list[RunEvent]:
        """A page of the run's events of category ``message``."""
        ...

    async def list_events(
        self,
        thread_id: IdLike,
        run_id: IdLike,
        *,
        event_types: Iterable[str] | None = None,
        task_id: str | None = None,
        limit: int = 500,
        after_seq: int | None = None,
        user_id: IdLike | None = None,
    ) -> list[RunEvent]:
        """A page of all events of the run.

        ``event_types`` keeps these types (an empty list gives nothing), ``task_id`` the events
        whose metadata has this text as ``task_id``.
        """
        ...

    async def last_ai_seq_by_run(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        visible: bool = False,
        user_id: IdLike | None = None,
    ) -> dict[str, int]:
        """The ``seq`` of the last model answer (``llm.ai.response``, category ``message``) of each
        run that has one.

        ``visible`` leaves out messages marked ``hide_from_ui`` and those whose metadata names
        middleware as their ``caller``.
        """
        ...

    async def count_messages(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> int:
        """How many events of category ``message`` the thread has."""
        ...

    async def count_events(self) -> int:
        """How many events there are in all threads."""
        ...

    async def delete_by_thread(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> int:
        """Delete the thread's events; gives how many there were."""
        ...

    async def delete_by_run(
        self, thread_id: IdLike, run_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        """Delete the run's events; gives how many there were."""
        ...

    async def purge_thread(self, thread_id: IdLike) -> int:
        """Delete the thread's events and its counter; gives how many events there were.

        For a thread that goes from every surface: one of the same id would be a fresh thread.
        """
        ...
