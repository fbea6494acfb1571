"""Users: accounts that may sign in."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from deerstore.repositories.contracts.types import CREATED, STORED, Id, IdLike

__all__ = ["SYSTEM_ROLES", "User", "UserCreate", "UserRepository"]

SYSTEM_ROLES = ("user", "admin")


class UserCreate(BaseModel):
    """An account to be made. ``created_at`` defaults to now; a naive time means UTC."""

    model_config = CREATED

    id: Id
    email: str
    password_hash: str | None = None
    system_role: str = "user"
    created_at: datetime | None = None
    oauth_provider: str | None = None
    oauth_id: str | None = None
    needs_setup: bool = False
    token_version: int = 0


class User(BaseModel):
    """An account as it is stored. ``email`` is as it was given, ``created_at`` is in UTC."""

    model_config = STORED

    id: str
    email: str
    password_hash: str | None
    system_role: str
    created_at: datetime
    oauth_provider: str | None
    oauth_id: str | None
    needs_setup: bool
    token_version: int


@runtime_checkable
class UserRepository(Protocol):
    """Storage of accounts.

    An e-mail is one address whatever its case: unique and found without regard to case, returned
    as it was given. Lengths in characters: id 36, email 320, password_hash 128, system_role 16,
    oauth_provider 32, oauth_id 128; a longer value raises ``InvalidValueError``.
    """

    async def create_user(self, user: UserCreate) -> User:
        """Store a new account.

        Raises:
            EmailAlreadyRegisteredError: another account has the address, letter case aside.
            OAuthIdentityTakenError: another account has the OAuth identity.
            DuplicateIdError: the id is taken.
        """
        ...

    async def create_first_admin(self, user: UserCreate) -> User:
        """Store the first administrator, whatever ``user.system_role`` says.

        At most one call succeeds, across processes.

        Raises:
            AlreadyExistsError: there is an administrator, or the account's keys are taken as in
                :meth:`create_user`.
        """
        ...

    async def get_user_by_id(self, user_id: IdLike) -> User | None:
        """One account by its id."""
        ...

    async def get_user_by_email(self, email: str) -> User | None:
        """The account with this address. Of adopted accounts that differ only by case, the one
        with the exact spelling.
        """
        ...

    async def get_user_by_oauth(self, provider: str, oauth_id: str) -> User | None:
        """The account with this OAuth identity."""
        ...

    async def get_first_admin(self) -> User | None:
        """The oldest administrator: by ``created_at``, then ``id``."""
        ...

    async def update_user(self, user: User) -> User:
        """Change an account to ``user``, but for its ``created_at``; gives it as it is stored.

        Raises:
            UserNotFoundError: there is no such account.
            EmailAlreadyRegisteredError: another account has the new address.
            OAuthIdentityTakenError: another account has the new OAuth identity.
        """
        ...

    async def count_users(self) -> int:
        """How many accounts there are."""
        ...

    async def count_admin_users(self) -> int:
        """How many of them are administrators."""
        ...
