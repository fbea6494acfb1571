"""The thread repository over any executor."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from deerstore.database import Executor, Unit
from deerstore.errors import DuplicateIdError
from deerstore.json_text import decode_json, encode_exact_json, encode_object, stored_object
from deerstore.repositories.checks import optional_identifier, owned
from deerstore.repositories.contracts.threads import (
    ThreadMeta,
    ThreadMetaCreate,
    ThreadMetaRepository,
    ThreadOrder,
)
from deerstore.repositories.contracts.types import IdLike
from deerstore.repositories.metadata_filters import (
    EVERY_THREAD,
    Filter,
    column_filter,
    metadata_filters,
)
from deerstore.repositories.rows import row_builder
from deerstore.repositories.statements import statement
from deerstore.values import choice, free_text, identifier, page_bound, text, utcnow

__all__ = ["SqlThreadMetaRepository", "build_thread_meta_repository"]

_build: Callable[[Any], ThreadMeta] = row_builder(
    ThreadMeta,
    (
        "thread_id",
        "assistant_id",
        "user_id",
        "display_name",
        "status",
        "metadata",
        "created_time",
        "updated_time",
    ),
    {"metadata": stored_object},
)
_ASSISTANT_LENGTH = 128
_NAME_LENGTH = 256
_STATUS_LENGTH = 20
_DEPTHS = (200, 2_000, 10_000)
"""How many threads of each filter are looked at to find a rare one, one step after the other."""


def build_thread_meta_repository(executor: Executor) -> ThreadMetaRepository:
    """The threads over ``executor``: a ``Database`` commits each call at once."""
    return SqlThreadMetaRepository(executor)


class SqlThreadMetaRepository:
    """:class:`ThreadMetaRepository` in SQL."""

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create_thread_meta(self, thread: ThreadMetaCreate) -> ThreadMeta:
        params = {
            "thread_id": identifier("thread_id", thread.thread_id),
            "assistant_id": optional_identifier(
                "assistant_id", thread.assistant_id, _ASSISTANT_LENGTH
            ),
            "user_id": optional_identifier("user_id", thread.user_id),
            "display_name": _name(thread.display_name),
            "status": text("status", thread.status, _STATUS_LENGTH),
            "metadata": encode_object("metadata", thread.metadata),
            "created_at": utcnow(),
        }
        if not await self._executor.execute(statement("threads.create_thread"), **params):
            raise DuplicateIdError(f"there is a thread {params['thread_id']!r} already")
        return _build([*params.values(), params["created_at"]])

    async def get_thread_meta(
        self, thread_id: IdLike, *, user_id: IdLike | None = None
    ) -> ThreadMeta | None:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("threads.get_thread", owner=owned(params, user_id))
        rows = await self._executor.fetch_tuples(query, params)
        return _build(rows[0]) if rows else None

    # -- changing --------------------------------------------------------------------------------

    async def update_thread_meta(
        self,
        thread_id: IdLike,
        *,
        display_name: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: IdLike | None = None,
    ) -> bool:
        return await self._update(
            "threads.update_thread",
            thread_id,
            user_id,
            display_name=_name(display_name),
            status=None if status is None else text("status", status, _STATUS_LENGTH),
            metadata=None if metadata is None else encode_object("metadata", metadata),
        )

    async def update_display_name(
        self, thread_id: IdLike, display_name: str | None, *, user_id: IdLike | None = None
    ) -> bool:
        return await self._update(
            "threads.set_display_name", thread_id, user_id, display_name=_name(display_name)
        )

    async def update_status(
        self, thread_id: IdLike, status: str, *, user_id: IdLike | None = None
    ) -> bool:
        return await self._update(
            "threads.update_thread",
            thread_id,
            user_id,
            display_name=None,
            status=text("status", status, _STATUS_LENGTH),
            metadata=None,
        )

    async def merge_thread_metadata(
        self,
        thread_id: IdLike,
        patch: Mapping[str, Any],
        *,
        touch: bool = True,
        user_id: IdLike | None = None,
    ) -> bool:
        # A copy of what was checked: the caller may change the patch while the lock is awaited.
        checked = decode_json(encode_object("metadata", patch))
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        locking = statement("threads.lock_metadata", owner=owned(params, user_id))
        writing = statement("threads.write_metadata", touch=touch)

        def merge() -> Unit[bool]:
            rows = yield locking, params
            if not rows:
                return False
            # Old rows may hold NaN, which stays.
            merged = encode_exact_json(
                "metadata", {**stored_object(rows[0][0]), **checked}, allow_nan=True
            )
            changes = {"thread_id": params["thread_id"], "metadata": merged}
            if touch:
                changes["updated_at"] = utcnow()
            yield writing, changes
            return True

        return await self._executor.unit(merge)

    async def update_owner(
        self,
        thread_id: IdLike,
        owner_user_id: IdLike | None,
        *,
        user_id: IdLike | None = None,
    ) -> bool:
        return await self._update(
            "threads.update_owner",
            thread_id,
            user_id,
            owner_user_id=optional_identifier("owner_user_id", owner_user_id),
        )

    async def delete_thread(self, thread_id: IdLike, *, user_id: IdLike | None = None) -> bool:
        params: dict[str, Any] = {"thread_id": identifier("thread_id", thread_id)}
        query = statement("threads.delete_thread", owner=owned(params, user_id))
        return await self._executor.execute(query, **params) > 0

    # -- finding ---------------------------------------------------------------------------------

    async def check_access(
        self, thread_id: IdLike, user_id: IdLike | None, *, require_existing: bool = False
    ) -> bool:
        user = optional_identifier("user_id", user_id)
        rows = await self._executor.fetch_tuples(
            statement("threads.get_owner"), {"thread_id": identifier("thread_id", thread_id)}
        )
        if not rows:
            return not require_existing
        ((owner,),) = rows
        return user is None or owner is None or owner == user

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
        # Of equally frequent filters the first one drives: a user's threads, then the metadata.
        filters: list[Filter] = []
        if user_id is not None:
            filters.append(column_filter("user", identifier("user_id", user_id)))
        filters += metadata_filters(metadata)
        if assistant_id is not None:
            assistant = identifier("assistant_id", assistant_id, _ASSISTANT_LENGTH)
            filters.append(column_filter("assistant", assistant))
        if status is not None:
            filters.append(column_filter("status", text("status", status, _STATUS_LENGTH)))
        chosen = choice("order", order, ("created", "recent"))
        page = {"limit": page_bound("limit", limit), "offset": page_bound("offset", offset)}
        if not page["limit"]:
            return []
        if len(filters) < 2:
            (driving,) = filters or [EVERY_THREAD]
            query = statement("metadata_match.search_threads", match="one", order=chosen)
            rows = await self._executor.fetch_tuples(query, {**driving, **page})
        else:
            rows = await self._executor.unit(
                lambda: _search_by_several(filters, page, chosen), writes=False
            )
        return [_build(row) for row in rows]

    async def count_threads(self) -> int:
        return int(await self._executor.fetch_value(statement("threads.count_threads")))

    async def _update(
        self, name: str, thread_id: IdLike, user_id: IdLike | None, **changes: Any
    ) -> bool:
        params = {
            "thread_id": identifier("thread_id", thread_id),
            "updated_at": utcnow(),
            **changes,
        }
        query = statement(name, owner=owned(params, user_id))
        return await self._executor.execute(query, **params) > 0


def _search_by_several(
    filters: list[Filter], page: dict[str, int], order: str
) -> Unit[list[tuple[Any, ...]]]:
    """A search that is driven by the rarest of its filters.

    Looking for it costs as much as that one has threads, at most the last depth; beyond it all are
    so frequent that a page is full soon, whichever drives.
    """
    asked = json.dumps([{"position": n, **each} for n, each in enumerate(filters)])
    rare = statement("metadata_match.rare_filter")
    rarest = 0
    for depth in _DEPTHS:
        found = yield rare, {"filters": asked, "depth": depth}
        if found:
            rarest = int(found[0][0])
            break
    more = filters[:rarest] + filters[rarest + 1 :]
    query = statement("metadata_match.search_threads", match="all", order=order)
    return (yield query, {**filters[rarest], **page, "more_filters": json.dumps(more)})


def _name(display_name: str | None) -> str | None:
    return None if display_name is None else free_text("display_name", display_name, _NAME_LENGTH)
