"""What an operation is to the benchmark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from deerstore.database import Executor
from deerstore.repositories import (
    FeedbackRepository,
    RunEventRepository,
    RunRepository,
    ThreadMetaRepository,
    UserRepository,
    build_feedback_repository,
    build_run_event_repository,
    build_run_repository,
    build_thread_meta_repository,
    build_user_repository,
)

__all__ = ["Operation", "Repositories", "Work", "repositories"]


class Repositories(NamedTuple):
    """The five repositories over one executor."""

    users: UserRepository
    runs: RunRepository
    events: RunEventRepository
    threads: ThreadMetaRepository
    feedback: FeedbackRepository


def repositories(executor: Executor) -> Repositories:
    """The five repositories over ``executor``."""
    return Repositories(
        build_user_repository(executor),
        build_run_repository(executor),
        build_run_event_repository(executor),
        build_thread_meta_repository(executor),
        build_feedback_repository(executor),
    )


Work = Callable[[Repositories, Any], Awaitable[Any]]


def _key(key: str) -> Any:
    return key


@dataclass(frozen=True)
class Operation:
    """One call of a repository, with its input."""

    name: str
    """``repository.method`` and the size of what comes back, where it matters."""
    call: Work
    """Does it once, with what ``given`` made."""
    given: Callable[[str], Any] = _key
    """The input of one call, made outside the timing from a key that is never used twice."""
    prepare: Work | None = None
    """What has to be there before the call with this key; outside the timing, too."""
    payload: tuple[Any, ...] = ()
    """JSON values that the call encodes: the floor has to do so, too."""
    writes: bool = False
    calls: int = 6
    """Calls per block."""
    kind: str = "single"
    """``single`` row, ``page`` or ``batch``."""
