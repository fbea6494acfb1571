"""Run events under a gateway's names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from deerstore.errors import InvalidValueError
from deerstore.gateway.context import (
    CONTEXT_USER,
    ContextUser,
    context_user_id,
    resolve_user_id,
)
from deerstore.gateway.stores.adapters import StorageRunEventRepository
from deerstore.gateway.stores.binding import Bound, SessionFactory
from deerstore.gateway.stores.rows import as_row, as_rows, as_text, as_texts, invalid
from deerstore.repositories import RunEventCreate
from deerstore.repositories.contracts.types import IdLike, Time

__all__ = ["StorageRunEventStore"]

User = IdLike | ContextUser | None
Row = dict[str, Any]


class StorageRunEventStore:
    """Events: what happened in a thread, in order.

    Args:
        session_factory: gives the sessions of the bundle.
        max_trace_content: content of category ``trace`` is cut to so many UTF-8 bytes; its
            metadata then has ``content_truncated`` and ``original_byte_length``. Content that is
            not text is cut as its JSON text.
    """

    def __init__(self, session_factory: SessionFactory, *, max_trace_content: int = 10_240) -> None:
        self._events = Bound(StorageRunEventRepository(session_factory))
        self._max_trace_content = max_trace_content

    # -- writing: without a request context, an event has no owner -------------------------------

    async def put(
        self,
        *,
        thread_id: IdLike,
        run_id: IdLike,
        event_type: str,
        category: str,
        content: Any = "",
        metadata: dict[str, Any] | None = None,
        created_at: Time | None = None,
    ) -> Row:
        """Append an event."""
        event = self._event(
            thread_id=thread_id,
            run_id=run_id,
            event_type=event_type,
            category=category,
            content=content,
            metadata=metadata,
            created_at=created_at,
        )
        return as_row(await self._events().append(event))

    async def put_batch(self, events: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Append events of one thread in their order, all or nothing.

        Each has the arguments of :meth:`put`, where ``category`` defaults to ``trace``, and may
        have a ``user_id`` of its own.

        Raises:
            InvalidValueError: they belong to several threads, or ``index`` says which one is
                refused. Nothing was stored.
        """
        created = [self._event(index, **_arguments(index, e)) for index, e in enumerate(events)]
        if len({event.thread_id for event in created}) > 1:
            raise InvalidValueError("put_batch takes events of one thread", field="thread_id")
        return as_rows(await self._events().append_batch(created))

    async def put_if_absent(
        self,
        *,
        thread_id: IdLike,
        run_id: IdLike,
        event_type: str,
        category: str,
        content: Any = "",
        metadata: dict[str, Any] | None = None,
        created_at: Time | None = None,
    ) -> tuple[Row, bool]:
        """Append an event unless the run has one of its type; gives the one that is there then,
        and whether it is the new one.
        """
        event, created = await self._events().append_if_absent(
            self._event(
                thread_id=thread_id,
                run_id=run_id,
                event_type=event_type,
                category=category,
                content=content,
                metadata=metadata,
                created_at=created_at,
            )
        )
        return as_row(event), created

    def _event(
        self,
        index: int | None = None,
        *,
        category: Any = "trace",
        content: Any = "",
        metadata: dict[str, Any] | None = None,
        user_id: User = CONTEXT_USER,
        **fields: Any,
    ) -> RunEventCreate:
        category = as_text(category)
        metadata = {} if metadata is None else metadata
        if category == "trace":
            content, metadata = self._bounded(content, metadata)
        owner = context_user_id() if user_id is CONTEXT_USER else resolve_user_id(user_id)
        fields["event_type"] = as_text(fields.get("event_type"))
        try:
            return RunEventCreate(
                category=category, content=content, metadata=metadata, user_id=owner, **fields
            )
        except ValidationError as error:
            raise invalid(error, index=index) from None

    def _bounded(self, content: Any, metadata: Any) -> tuple[Any, Any]:
        limit = self._max_trace_content
        if isinstance(content, str):
            text = content
        else:
            try:
                text = json.dumps(content, ensure_ascii=False, default=str)
            except (TypeError, ValueError, RecursionError):
                # Not to be measured; whether it can be stored is for the repository to say.
                return content, metadata
        if len(text) * 4 <= limit:
            return content, metadata
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) <= limit or not isinstance(metadata, dict):
            return content, metadata
        return encoded[:limit].decode("utf-8", "ignore"), {
            **metadata,
            "content_truncated": True,
            "original_byte_length": len(encoded),
        }

    # -- reading ---------------------------------------------------------------------------------

    async def list_messages(
        self,
        thread_id: IdLike,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
        user_id: User = CONTEXT_USER,
    ) -> list[Row]:
        """A page of the thread's messages, in rising ``seq``."""
        return as_rows(
            await self._events().list_messages(
                thread_id,
                limit=limit,
                before_seq=before_seq,
                after_seq=after_seq,
                user_id=resolve_user_id(user_id),
            )
        )

    async def list_messages_by_run(
        self,
        thread_id: IdLike,
        run_id: IdLike,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
        user_id: User = CONTEXT_USER,
    ) -> list[Row]:
        """A page of the run's messages, in rising ``seq``."""
        return as_rows(
            await self._events().list_messages_by_run(
                thread_id,
                run_id,
                limit=limit,
                before_seq=before_seq,
                after_seq=after_seq,
                user_id=resolve_user_id(user_id),
            )
        )

    async def list_events(
        self,
        thread_id: IdLike,
        run_id: IdLike,
        *,
        event_types: Iterable[str] | None = None,
        task_id: str | None = None,
        limit: int = 500,
        after_seq: int | None = None,
        user_id: User = CONTEXT_USER,
    ) -> list[Row]:
        """A page of all events of the run; no event types are no filter."""
        types = as_texts(event_types) if event_types is not None else None
        return as_rows(
            await self._events().list_events(
                thread_id,
                run_id,
                event_types=types or None,
                task_id=task_id,
                limit=limit,
                after_seq=after_seq,
                user_id=resolve_user_id(user_id),
            )
        )

    async def get_last_visible_ai_seq_by_run(
        self, thread_id: IdLike, run_ids: Iterable[IdLike], *, user_id: User = CONTEXT_USER
    ) -> dict[str, int]:
        """The ``seq`` of each run's last answer that the user sees, where it has one."""
        return await self._events().last_ai_seq_by_run(
            thread_id, as_texts(run_ids), visible=True, user_id=resolve_user_id(user_id)
        )

    async def count_messages(self, thread_id: IdLike, *, user_id: User = CONTEXT_USER) -> int:
        """How many messages the thread has."""
        return await self._events().count_messages(thread_id, user_id=resolve_user_id(user_id))

    # -- deleting --------------------------------------------------------------------------------

    async def delete_by_thread(self, thread_id: IdLike, *, user_id: User = CONTEXT_USER) -> int:
        """Delete the thread's events; gives how many there were."""
        return await self._events().delete_by_thread(thread_id, user_id=resolve_user_id(user_id))

    async def delete_by_run(
        self, thread_id: IdLike, run_id: IdLike, *, user_id: User = CONTEXT_USER
    ) -> int:
        """Delete the run's events; gives how many there were."""
        return await self._events().delete_by_run(
            thread_id, run_id, user_id=resolve_user_id(user_id)
        )


_ARGUMENTS = (
    "thread_id",
    "run_id",
    "event_type",
    "category",
    "content",
    "metadata",
    "created_at",
    "user_id",
)


def _arguments(index: int, event: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(event, Mapping):
        raise InvalidValueError(
            f"events[{index}]: an event must be a dict, not {type(event).__name__}", index=index
        )
    return {name: event[name] for name in _ARGUMENTS if name in event}
