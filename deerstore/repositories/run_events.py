"""The run event repository over any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from deerstore.database import Executor
from deerstore.errors import InvalidValueError
from deerstore.json_text import encode_object_and_copy, stored_object
from deerstore.repositories.checks import optional_identifier, owned
from deerstore.repositories.contracts.run_events import (
    RunEvent,
    RunEventCreate,
    RunEventRepository,
)
from deerstore.repositories.contracts.types import IdLike
from deerstore.repositories.event_content import (
    decode_foreign,
    encode_content,
)
from deerstore.repositories.rows import row_builder, stored_value
from deerstore.repositories.statements import statement
from deerstore.values import as_utc, identifier, identifiers, int64, page_bound, text, utcnow

__all__ = ["SqlRunEventRepository", "build_run_event_repository"]

_build: Callable[[Sequence[Any]], RunEvent] = row_builder(
    RunEvent,
    (
        "thread_id",
        "run_id",
        "user_id",
        "event_type",
        "category",
        "content",
        "metadata",
        "seq",
        "created_at",
    ),
)


_Row = tuple[str, str, str | None, str, str, str, str, str, datetime, Any, dict[str, Any]]
"""An event as it goes to the database, in the order of ``_PARAMS``, and behind that the content and
the metadata that a later read will give."""

_PARAMS = (
    "thread_id",
    "run_id",
    "user_id",
    "event_type",
    "category",
    "content",
    "metadata",
    "content_format",
    "created_at",
)

_Place = tuple[str, str, str | None, str, str]
"""What the events of a batch have in common, mostly: the first five of a row."""


def build_run_event_repository(executor: Executor) -> RunEventRepository:
    """The events over ``executor``: a ``Database`` commits each call at once."""
    return SqlRunEventRepository(executor)


class SqlRunEventRepository:
    """:class:`RunEventRepository` in SQL."""

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    # -- appending -------------------------------------------------------------------------------

    async def append(self, event: RunEventCreate) -> RunEvent:
        return (await self._append([_checked(event, utcnow(), {})]))[0]

    async def append_batch(self, events: Sequence[RunEventCreate]) -> list[RunEvent]:
        now = utcnow()
        places: dict[_Place, _Place] = {}
        rows: list[_Row] = []
        try:
            for event in events:
                # One by one: how many were good tells which one is not.
                rows.append(_checked(event, now, places))  # noqa: PERF401
        except InvalidValueError as error:
            index = len(rows)
            raise InvalidValueError(
                f"events[{index}]: {error}", field=error.field, index=index
            ) from error
        return await self._append(rows) if rows else []

    async def append_if_absent(self, event: RunEventCreate) -> tuple[RunEvent, bool]:
        row = _checked(event, utcnow(), {})
        query = statement("run_events.append_if_absent")
        ((*stored, created),) = await self._executor.fetch_tuples(
            query, dict(zip(_PARAMS, row, strict=False))
        )
        return _event(stored), created

    async def _append(self, rows: list[_Row]) -> list[RunEvent]:
        threads, runs, users, types, categories, contents, metadata, formats, times, *_ = map(
            list, zip(*rows, strict=True)
        )
        params: dict[str, Any] = {
            "count": len(rows),
            "positions": list(range(1, len(rows) + 1)),
            "run_ids": runs,
            "user_ids": users,
            "event_types": types,
            "categories": categories,
            "contents": contents,
            "metadata": metadata,
            "content_formats": formats,
            "created_times": times,
        }
        distinct = set(threads)
        if len(distinct) == 1:
            name = "run_events.append_batch"
            params["thread_id"] = threads[0]
        else:
            name = "run_events.append_mixed"
            params["thread_ids"] = threads
            params["locked_threads"] = sorted(distinct)
        ((base,),) = await self._executor.fetch_tuples(statement(name), params)
        return [
            _build((thread, run, user, kind, category, read, read_metadata, seq, created))
            for seq, (
                thread, run, user, kind, category, _, _, _, created, read, read_metadata
            ) in enumerate(rows, base + 1)
        ]  # fmt: skip

    # -- reading ---------------------------------------------------------------------------------

    async def list_messages(
        self,
        thread_id: IdLike,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
        user_id: IdLike | None = None,
    ) -> list[RunEvent]:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        return await self._page(
            "run_events.list_messages", params, limit, before_seq, after_seq, user_id
        )

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
        return await self._page(
            "run_events.list_messages_by_run",
            _place(thread_id, run_id),
            limit,
            before_seq,
            after_seq,
            user_id,
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
        user_id: IdLike | None = None,
    ) -> list[RunEvent]:
        params = _place(thread_id, run_id)
        params["limit"] = page_bound("limit", limit)
        owner = owned(params, user_id)
        if after_seq is not None:
            params["after_seq"] = int64("after_seq", after_seq)
        if event_types is not None:
            params["event_types"] = _types(event_types)
        if task_id is not None:
            params["task_id"] = text("task_id", task_id)
        if not params["limit"] or not params.get("event_types", True):
            return []
        query = statement(
            "run_events.list_events",
            after=after_seq is not None,
            types=event_types is not None,
            task=task_id is not None,
            owner=owner,
        )
        rows = await self._executor.fetch_tuples(query, params)
        return _ascending(rows, newest_first=after_seq is None)

    async def last_ai_seq_by_run(
        self,
        thread_id: IdLike,
        run_ids: Iterable[IdLike],
        *,
        visible: bool = False,
        user_id: IdLike | None = None,
    ) -> dict[str, int]:
        params: dict[str, Any] = {
            "thread_id": identifier("thread_id", thread_id),
            "run_ids": list(dict.fromkeys(identifiers("run_ids", run_ids))),
        }
        owner = owned(params, user_id)
        if not params["run_ids"]:
            return {}
        query = statement("run_events.last_ai_seq_by_run", visible=visible, owner=owner)
        rows = await self._executor.fetch_tuples(query, params)
        return {run_id: seq for run_id, seq in rows if seq is not None}

    async def count_messages(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> int:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("run_events.count_messages", owner=owned(params, user_id))
        return int(await self._executor.fetch_value(query, **params))

    async def count_events(self) -> int:
        return int(await self._executor.fetch_value(statement("run_events.count_events")))

    # -- deleting --------------------------------------------------------------------------------

    async def delete_by_thread(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> int:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("run_events.delete_by_thread", owner=owned(params, user_id))
        return await self._executor.execute(query, **params)

    async def delete_by_run(
        self, thread_id: IdLike, run_id: IdLike, *, user_id: IdLike | None = None
    ) -> int:
        params = _place(thread_id, run_id)
        query = statement("run_events.delete_by_run", owner=owned(params, user_id))
        return await self._executor.execute(query, **params)

    async def purge_thread(self, thread_id: IdLike) -> int:
        params = {"thread_id": identifier("thread_id", thread_id)}

        async def purge(executor: Executor) -> int:
            count = await executor.execute(statement("run_events.purge_events"), **params)
            await executor.execute(statement("run_events.purge_counter"), **params)
            return count

        return await self._executor.retrying(purge)

    async def _page(
        self,
        name: str,
        params: dict[str, Any],
        limit: int,
        before_seq: int | None,
        after_seq: int | None,
        user_id: IdLike | None,
    ) -> list[RunEvent]:
        params["limit"] = page_bound("limit", limit)
        if before_seq is not None:
            params["before_seq"] = int64("before_seq", before_seq)
        if after_seq is not None:
            params["after_seq"] = int64("after_seq", after_seq)
        owner = owned(params, user_id)
        if not params["limit"]:
            return []
        query = statement(
            name, before=before_seq is not None, after=after_seq is not None, owner=owner
        )
        rows = await self._executor.fetch_tuples(query, params)
        return _ascending(rows, newest_first=after_seq is None)


def _ascending(rows: list[tuple[Any, ...]], *, newest_first: bool) -> list[RunEvent]:
    if newest_first:
        rows.reverse()
    return [_event(row) for row in rows]


def _event(row: Sequence[Any]) -> RunEvent:
    thread_id, run_id, user_id, event_type, category, content, metadata, form, seq, created = row
    if form == "text":
        metadata = stored_object(metadata)
    elif form == "json":
        content, metadata = stored_value(content), stored_object(metadata)
    else:
        content, metadata = decode_foreign(content, metadata)
    return _build(
        (thread_id, run_id, user_id, event_type, category, content, metadata, seq, created)
    )


def _place(thread_id: IdLike, run_id: IdLike) -> dict[str, Any]:
    return {
        "thread_id": identifier("thread_id", thread_id),
        "run_id": identifier("run_id", run_id),
    }


def _types(event_types: Iterable[str]) -> list[str]:
    if isinstance(event_types, str):
        raise InvalidValueError("event_types must be a list, not one string", field="event_types")
    # Of any length: one that no event can have is simply not found.
    return [text(f"event_types[{i}]", value) for i, value in enumerate(event_types)]


def _checked(event: RunEventCreate, now: datetime, places: dict[_Place, _Place]) -> _Row:
    """The event as a row. ``places`` keeps what was checked for earlier events of the batch."""
    if not isinstance(event, RunEventCreate):
        raise InvalidValueError(f"an event must be a RunEventCreate, not {type(event).__name__}")
    key = (event.thread_id, event.run_id, event.user_id, event.event_type, event.category)
    place = places.get(key)
    if place is None:
        place = places[key] = (
            identifier("thread_id", event.thread_id),
            identifier("run_id", event.run_id),
            optional_identifier("user_id", event.user_id),
            text("event_type", event.event_type, 32),
            text("category", event.category, 16),
        )
    content, content_format, read = encode_content(event.content)
    metadata, read_metadata = encode_object_and_copy("metadata", event.metadata)
    created = event.created_at
    return (
        *place,
        content,
        metadata,
        content_format,
        now if created is None else as_utc("created_at", created),
        # Copied now: the caller may change what it gave while the database is awaited.
        read,
        read_metadata,
    )
