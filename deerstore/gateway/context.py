"""The user of the request, kept in a context variable.

A gateway sets the user once, where it authenticates; the stores read it wherever ``user_id`` is
left out. Tasks and threads started through :mod:`asyncio` inherit the value that was set when
they began.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from enum import Enum
from typing import Any, Final

__all__ = [
    "CONTEXT_USER",
    "ContextUser",
    "context_user_id",
    "current_user",
    "reset_current_user",
    "resolve_user_id",
    "set_current_user",
]


class ContextUser(Enum):
    """The type of :data:`CONTEXT_USER`, for annotations."""

    CONTEXT_USER = "the user of the request context"


CONTEXT_USER: Final = ContextUser.CONTEXT_USER
"""Default of every ``user_id`` argument that may be left out."""

_user_id: ContextVar[str | None] = ContextVar("deerstore_user_id", default=None)


def set_current_user(user: Any) -> Token[str | None]:
    """Make ``user`` the request's user and return the token that undoes it.

    ``user`` is a string, a :class:`uuid.UUID` or any object with an ``id``; ``None`` means that
    nobody is signed in. Anything else is a :class:`TypeError`.
    """
    return _user_id.set(_id_of(user))


def reset_current_user(token: Token[str | None]) -> None:
    """Restore the user from before the :func:`set_current_user` that gave ``token``."""
    _user_id.reset(token)


@contextmanager
def current_user(user: Any) -> Iterator[None]:
    """Make ``user`` the request's user inside the ``with`` block."""
    token = set_current_user(user)
    try:
        yield
    finally:
        reset_current_user(token)


def context_user_id() -> str | None:
    """The id of the request's user, or ``None`` when none is set."""
    return _user_id.get()


def resolve_user_id(user_id: str | uuid.UUID | ContextUser | None) -> str | None:
    """A ``user_id`` argument as the repositories take it.

    Left out means the request's user, and a :class:`RuntimeError` when there is none: a missing
    sign-in must never read as "everybody". A string is that user; ``None`` is no filter.
    """
    if user_id is not CONTEXT_USER:
        return _id_of(user_id)
    resolved = _user_id.get()
    if resolved is None:
        raise RuntimeError("no user context is set: pass user_id, or call inside current_user(...)")
    return resolved


def _id_of(user: Any) -> str | None:
    if user is None or type(user) is str:
        return user
    if isinstance(user, str):
        # A string enum is taken as its text.
        return str.__str__(user)
    if isinstance(user, uuid.UUID):
        return str(user)
    identity = getattr(user, "id", None)
    if identity is None or identity is user:
        raise TypeError(
            f"a user is a string, a UUID or an object with an id, not {type(user).__name__}"
        )
    return identity if type(identity) is str else str(identity)
