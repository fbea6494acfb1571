"""The user repository over any executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deerstore.database import Executor
from deerstore.errors import (
    AlreadyExistsError,
    DuplicateIdError,
    EmailAlreadyRegisteredError,
    OAuthIdentityTakenError,
    QueryExecutionError,
    RetryableError,
    UserNotFoundError,
)
from deerstore.repositories.checks import optional_text
from deerstore.repositories.contracts.types import IdLike
from deerstore.repositories.contracts.users import SYSTEM_ROLES, User, UserCreate, UserRepository
from deerstore.repositories.rows import row_builder
from deerstore.repositories.statements import statement
from deerstore.values import as_utc, boolean, choice, fold_email, identifier, int64, text, utcnow

__all__ = ["SqlUserRepository", "build_user_repository"]

FIELDS = (
    "id",
    "email",
    "password_hash",
    "system_role",
    "created_at",
    "oauth_provider",
    "oauth_id",
    "needs_setup",
    "token_version",
)
_build: Callable[[Any], User] = row_builder(User, FIELDS)
_ATTEMPTS = 3
_DUPLICATE = "23505"
_EMAIL_LENGTH = 320


def build_user_repository(executor: Executor) -> UserRepository:
    """The users over ``executor``: a ``Database`` commits each call at once."""
    return SqlUserRepository(executor)


class SqlUserRepository:
    """:class:`UserRepository` in SQL."""

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create_user(self, user: UserCreate) -> User:
        return await self._create("users.create_user", _checked(user))

    async def create_first_admin(self, user: UserCreate) -> User:
        params = _checked(user)
        del params["system_role"]
        return await self._create("users.create_first_admin", params)

    async def get_user_by_id(self, user_id: IdLike) -> User | None:
        return await self._one("users.get_user_by_id", {"id": identifier("user_id", user_id, 36)})

    async def get_user_by_email(self, email: str) -> User | None:
        address, key = _address(email)
        found = await self._one("users.get_user_by_email", {"email": address, "email_key": key})
        if found is None:
            found = await self._one("users.get_unkeyed_user_by_email", {"email_key": key})
        return found

    async def get_user_by_oauth(self, provider: str, oauth_id: str) -> User | None:
        return await self._one(
            "users.get_user_by_oauth",
            {
                "oauth_provider": text("provider", provider, 32),
                "oauth_id": text("oauth_id", oauth_id, 128),
            },
        )

    async def get_first_admin(self) -> User | None:
        return await self._one("users.get_first_admin", {})

    async def update_user(self, user: User) -> User:
        params = _checked(user)
        del params["created_at"]
        cause: QueryExecutionError | None = None
        for _ in range(_ATTEMPTS):
            try:
                (found,) = await self._executor.fetch_tuples(statement("users.update_user"), params)
            except QueryExecutionError as error:
                if error.sqlstate != _DUPLICATE:
                    raise
                # Somebody took the address or the identity since it was looked up.
                cause = error
                continue
            is_there, email_taken, oauth_taken, *changed = found
            if not is_there:
                raise UserNotFoundError(f"there is no user {params['id']!r}") from cause
            if email_taken:
                raise _email_taken() from cause
            if oauth_taken:
                raise _oauth_taken() from cause
            return _build(changed)
        raise _kept_meeting_others(params["id"]) from cause

    async def count_users(self) -> int:
        return int(await self._executor.fetch_value(statement("users.count_users")))

    async def count_admin_users(self) -> int:
        return int(await self._executor.fetch_value(statement("users.count_admin_users")))

    async def _one(self, name: str, params: dict[str, Any]) -> User | None:
        rows = await self._executor.fetch_tuples(statement(name), params)
        return _build(rows[0]) if rows else None

    async def _create(self, name: str, params: dict[str, Any]) -> User:
        keys = {
            key: params[key] for key in ("id", "email", "email_key", "oauth_provider", "oauth_id")
        }
        for _ in range(_ATTEMPTS):
            if await self._executor.execute(statement(name), **params):
                return _build([params.get(field, "admin") for field in FIELDS])
            (conflicts,) = await self._executor.fetch_tuples(
                statement("users.find_create_conflicts"), keys
            )
            email_taken, oauth_taken, id_taken, admin_exists = conflicts
            if admin_exists and name == "users.create_first_admin":
                raise AlreadyExistsError("there is an administrator already")
            if email_taken:
                raise _email_taken()
            if oauth_taken:
                raise _oauth_taken()
            if id_taken:
                raise DuplicateIdError(f"there is a user {params['id']!r} already")
            # What stood in the way is gone again: another try.
        raise _kept_meeting_others(params["id"])


def _checked(user: UserCreate | User) -> dict[str, Any]:
    email, email_key = _address(user.email)
    created = user.created_at
    return {
        "id": identifier("id", user.id, 36),
        "email": email,
        "email_key": email_key,
        "password_hash": optional_text("password_hash", user.password_hash, 128),
        "system_role": choice("system_role", user.system_role, SYSTEM_ROLES),
        "created_at": utcnow() if created is None else as_utc("created_at", created),
        "oauth_provider": optional_text("oauth_provider", user.oauth_provider, 32),
        "oauth_id": optional_text("oauth_id", user.oauth_id, 128),
        "needs_setup": boolean("needs_setup", user.needs_setup),
        "token_version": int64("token_version", user.token_version),
    }


def _address(email: str) -> tuple[str, str]:
    address = text("email", email, _EMAIL_LENGTH)
    # Lower case may be longer: U+0130 becomes two characters.
    return address, text("email", fold_email(address), _EMAIL_LENGTH)


def _kept_meeting_others(user_id: str) -> RetryableError:
    return RetryableError(f"user {user_id!r} was in the way of others, and they of it")


def _email_taken() -> EmailAlreadyRegisteredError:
    return EmailAlreadyRegisteredError("Email already registered")


def _oauth_taken() -> OAuthIdentityTakenError:
    return OAuthIdentityTakenError("another user has this OAuth identity")
