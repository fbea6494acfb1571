"""Threads under a gateway's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from deerstore.gateway.context import CONTEXT_USER, ContextUser, resolve_user_id
from deerstore.gateway.stores.adapters import StorageThreadMetaRepository
from deerstore.gateway.stores.binding import Bound, SessionFactory
from deerstore.gateway.stores.rows import as_row, as_rows, as_text, invalid
from deerstore.repositories import ThreadMetaCreate
from deerstore.repositories.contracts.types import IdLike

__all__ = ["StorageThreadMetaStore"]

User = IdLike | ContextUser | None
Row = dict[str, Any]


class StorageThreadMetaStore:
    """Threads: which conversations there are, and whose."""

    def __init__(self, session_factory: SessionFactory) -> None:
        self._threads = Bound(StorageThreadMetaRepository(session_factory))

    async def create(
        self,
        thread_id: IdLike,
        *,
        assistant_id: IdLike | None = None,
        user_id: User = CONTEXT_USER,
        display_name: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Row:
        """Store a new thread.

        Raises:
            DuplicateIdError: the id is taken; ``sqlstate`` is ``23505``.
        """
        owner = resolve_user_id(user_id)
        try:
            thread = ThreadMetaCreate.model_validate(
                {
                    "thread_id": thread_id,
                    "assistant_id": assistant_id,
                    "user_id": owner,
                    "display_name": display_name,
                    "metadata": {} if metadata is None else metadata,
                }
            )
        except ValidationError as error:
            raise invalid(error) from None
        return as_row(await self._threads().create_thread_meta(thread))

    async def get(self, thread_id: IdLike, *, user_id: User = CONTEXT_USER) -> Row | None:
        """One thread."""
        thread = await self._threads().get_thread_meta(thread_id, user_id=resolve_user_id(user_id))
        return None if thread is None else as_row(thread)

    async def check_access(
        self, thread_id: IdLike, user_id: IdLike | None, *, require_existing: bool = False
    ) -> bool:
        """Whether the user may use the thread: it is theirs, shared, or not there yet."""
        return await self._threads().check_access(
            thread_id, resolve_user_id(user_id), require_existing=require_existing
        )

    async def search(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        limit: int = 100,
        offset: int = 0,
        user_id: User = CONTEXT_USER,
    ) -> list[Row]:
        """A page of threads: pinned ones first, then the most recent.

        Raises:
            InvalidMetadataFilterError: nothing of ``metadata`` could be used.
        """
        return as_rows(
            await self._threads().search_threads(
                metadata=metadata,
                status=as_text(status),
                user_id=resolve_user_id(user_id),
                limit=limit,
                offset=offset,
                order="recent",
            )
        )

    async def update_display_name(
        self, thread_id: IdLike, name: str | None, *, user_id: User = CONTEXT_USER
    ) -> bool:
        """Name a thread. False: there is no such thread."""
        return await self._threads().update_display_name(
            thread_id, name, user_id=resolve_user_id(user_id)
        )

    async def update_status(
        self, thread_id: IdLike, status: str, *, user_id: User = CONTEXT_USER
    ) -> bool:
        """Set the status. False: there is no such thread."""
        return await self._threads().update_status(
            thread_id, as_text(status), user_id=resolve_user_id(user_id)
        )

    async def update_metadata(
        self,
        thread_id: IdLike,
        patch: Mapping[str, Any],
        *,
        touch: bool = True,
        user_id: User = CONTEXT_USER,
    ) -> bool:
        """Set the keys of ``patch``, keep all others. False: there is no such thread."""
        return await self._threads().merge_thread_metadata(
            thread_id, patch, touch=touch, user_id=resolve_user_id(user_id)
        )

    async def update_owner(
        self, thread_id: IdLike, owner_user_id: IdLike | None, *, user_id: User = CONTEXT_USER
    ) -> bool:
        """Give the thread to a user. False: there is no such thread."""
        return await self._threads().update_owner(
            thread_id, resolve_user_id(owner_user_id), user_id=resolve_user_id(user_id)
        )

    async def delete(self, thread_id: IdLike, *, user_id: User = CONTEXT_USER) -> bool:
        """Delete the thread's row. False: there is no such thread."""
        return await self._threads().delete_thread(thread_id, user_id=resolve_user_id(user_id))
