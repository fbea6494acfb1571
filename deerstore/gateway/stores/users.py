"""Users under a gateway's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from deerstore.gateway.stores.adapters import StorageUserDataRepository
from deerstore.gateway.stores.binding import Bound, SessionFactory
from deerstore.gateway.stores.rows import as_row, as_text, invalid
from deerstore.repositories import User, UserCreate
from deerstore.repositories.contracts.types import IdLike
from deerstore.values import as_utc, utcnow

__all__ = ["StorageUserStore"]

Row = dict[str, Any]

_MISSING = object()


class StorageUserStore:
    """Accounts. A user goes in as any object with its fields and comes out as a dict; e-mails are
    stored in lower case.
    """

    def __init__(self, session_factory: SessionFactory) -> None:
        self._users = Bound(StorageUserDataRepository(session_factory))

    async def create_user(self, user: Any) -> Row:
        """Store a new account.

        Raises:
            EmailAlreadyRegisteredError: another account has the address.
            OAuthIdentityTakenError: another account has the OAuth identity.
            DuplicateIdError: the id is taken.
        """
        return as_row(await self._users().create_user(_new(user)))

    async def create_first_admin(self, user: Any) -> Row:
        """Store the first administrator; at most one call succeeds.

        Raises:
            AlreadyExistsError: there is an administrator, or a key of the account is taken.
        """
        return as_row(await self._users().create_first_admin(_new(user)))

    async def get_user_by_id(self, user_id: IdLike) -> Row | None:
        """One account by its id."""
        return _optional(await self._users().get_user_by_id(user_id))

    async def get_user_by_email(self, email: str) -> Row | None:
        """The account with this address, letter case aside."""
        return _optional(await self._users().get_user_by_email(email))

    async def get_user_by_oauth(self, provider: str, oauth_id: str) -> Row | None:
        """The account with this OAuth identity."""
        return _optional(await self._users().get_user_by_oauth(as_text(provider), oauth_id))

    async def get_first_admin(self) -> Row | None:
        """The oldest administrator."""
        return _optional(await self._users().get_first_admin())

    async def update_user(self, user: Any) -> Row:
        """Change an account, but for its ``created_at``.

        Raises:
            UserNotFoundError: there is no such account.
            EmailAlreadyRegisteredError: another account has the new address.
            OAuthIdentityTakenError: another account has the new OAuth identity.
        """
        fields = _new(user).model_dump()
        # Not written; a stored user has one.
        fields["created_at"] = fields["created_at"] or utcnow()
        return as_row(await self._users().update_user(User.model_validate(fields)))

    async def count_users(self) -> int:
        """How many accounts there are."""
        return await self._users().count_users()

    async def count_admin_users(self) -> int:
        """How many of them are administrators."""
        return await self._users().count_admin_users()


def _new(user: Any) -> UserCreate:
    fields: dict[str, Any] = {}
    for name in UserCreate.model_fields:
        value = (
            user.get(name, _MISSING) if isinstance(user, Mapping) else getattr(user, name, _MISSING)
        )
        if value is not _MISSING:
            fields[name] = as_text(value)
    if isinstance(fields.get("email"), str):
        fields["email"] = fields["email"].lower()
    if fields.get("created_at") is not None:
        fields["created_at"] = as_utc("created_at", fields["created_at"])
    try:
        return UserCreate.model_validate(fields)
    except ValidationError as error:
        raise invalid(error) from None


def _optional(user: User | None) -> Row | None:
    return None if user is None else as_row(user)
