"""Repositories that own their session: each call is its own unit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from deerstore.database import Executor
from deerstore.gateway.stores.binding import SessionFactory, database_of
from deerstore.repositories import RunRepository, build_run_repository
from deerstore.repositories.feedback import SqlFeedbackRepository
from deerstore.repositories.run_events import SqlRunEventRepository
from deerstore.repositories.runs import SqlRunRepository
from deerstore.repositories.threads import SqlThreadMetaRepository
from deerstore.repositories.users import SqlUserRepository

__all__ = [
    "StorageFeedbackRepository",
    "StorageRunEventRepository",
    "StorageRunRepository",
    "StorageThreadMetaRepository",
    "StorageUserDataRepository",
]

T = TypeVar("T")


class StorageRunRepository(SqlRunRepository):
    """:class:`~deerstore.repositories.RunRepository`, each call committed when it returns."""

    __slots__ = ()

    def __init__(self, session_factory: SessionFactory) -> None:
        super().__init__(database_of(session_factory))

    async def together(self, work: Callable[[RunRepository], Awaitable[T]]) -> T:
        """Several calls in one transaction, committed when ``work`` returns.

        ``work`` is given the repository to call, and may be run again after a deadlock.
        """

        async def run(transaction: Executor) -> T:
            return await work(build_run_repository(transaction))

        return await self._executor.retrying(run)


class StorageUserDataRepository(SqlUserRepository):
    """:class:`~deerstore.repositories.UserRepository`, each call committed when it returns."""

    __slots__ = ()

    def __init__(self, session_factory: SessionFactory) -> None:
        super().__init__(database_of(session_factory))


class StorageThreadMetaRepository(SqlThreadMetaRepository):
    """:class:`~deerstore.repositories.ThreadMetaRepository`, each call committed when it
    returns.
    """

    __slots__ = ()

    def __init__(self, session_factory: SessionFactory) -> None:
        super().__init__(database_of(session_factory))


class StorageFeedbackRepository(SqlFeedbackRepository):
    """:class:`~deerstore.repositories.FeedbackRepository`, each call committed when it returns."""

    __slots__ = ()

    def __init__(self, session_factory: SessionFactory) -> None:
        super().__init__(database_of(session_factory))


class StorageRunEventRepository(SqlRunEventRepository):
    """:class:`~deerstore.repositories.RunEventRepository`, each call committed when it returns."""

    __slots__ = ()

    def __init__(self, session_factory: SessionFactory) -> None:
        super().__init__(database_of(session_factory))
