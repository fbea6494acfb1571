"""Users: one address whatever its case, one OAuth identity, one first administrator."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from deerstore.errors import (
    AlreadyExistsError,
    DuplicateIdError,
    EmailAlreadyRegisteredError,
    InvalidValueError,
    OAuthIdentityTakenError,
    UserNotFoundError,
)
from deerstore.repositories import UserCreate, build_user_repository
from tests.repositories.conftest import HOSTILE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import UserRepository


@pytest.fixture
def users(database: Database) -> UserRepository:
    return build_user_repository(database)


def create(name: str = "u1", **fields: Any) -> UserCreate:
    return UserCreate(**{"id": name, "email": f"{name}@example.com", **fields})


async def test_what_create_returns_is_what_a_read_returns(users: UserRepository) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=9)))
    made = await users.create_user(
        create(
            email="Ada@Example.com",
            password_hash="$2b$12$x",
            system_role="admin",
            created_at=moment,
            oauth_provider="github",
            oauth_id="42",
            needs_setup=True,
            token_version=7,
        )
    )
    assert made == await users.get_user_by_id("u1")
    assert made.created_at == moment
    assert made.created_at.tzinfo is UTC
    assert made.email == "Ada@Example.com"
    assert (made.needs_setup, made.token_version, made.system_role) == (True, 7, "admin")


async def test_a_uuid_is_an_id(users: UserRepository) -> None:
    key = uuid.uuid4()
    await users.create_user(UserCreate(id=key, email="a@b.c"))
    assert (await users.get_user_by_id(key)) == (await users.get_user_by_id(str(key)))


async def test_ids_are_compared_code_point_by_code_point(users: UserRepository) -> None:
    for number, name in enumerate(HOSTILE_IDS):
        await users.create_user(UserCreate(id=name, email=f"{number}@example.com"))
    for number, name in enumerate(HOSTILE_IDS):
        found = await users.get_user_by_id(name)
        assert found is not None
        assert (found.id, found.email) == (name, f"{number}@example.com")


async def test_an_address_is_unique_without_regard_to_case(users: UserRepository) -> None:
    await users.create_user(create(email="Müller@Example.com"))
    for spelling in ("Müller@Example.com", "müller@example.com", "MÜLLER@EXAMPLE.COM"):
        with pytest.raises(EmailAlreadyRegisteredError, match="Email already registered"):
            await users.create_user(create("u2", email=spelling))
        found = await users.get_user_by_email(spelling)
        assert found is not None
        assert found.email == "Müller@Example.com"
    assert await users.get_user_by_email("muller@example.com") is None
    assert await users.get_user_by_email("müller@example.com ") is None


async def test_each_constraint_has_its_own_error(users: UserRepository) -> None:
    await users.create_user(create(oauth_provider="github", oauth_id="42"))
    with pytest.raises(DuplicateIdError):
        await users.create_user(create(email="other@example.com"))
    with pytest.raises(OAuthIdentityTakenError):
        await users.create_user(create("u2", oauth_provider="github", oauth_id="42"))
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.create_user(create("u2", email="U1@example.com"))
    assert await users.count_users() == 1


async def test_any_number_of_users_have_no_oauth_identity(users: UserRepository) -> None:
    for name in ("u1", "u2", "u3"):
        await users.create_user(create(name))
        await users.create_user(create(f"{name}x", oauth_provider="github"))
    assert await users.count_users() == 6
    assert await users.get_user_by_oauth("github", "42") is None


async def test_found_by_oauth_identity(users: UserRepository) -> None:
    await users.create_user(create(oauth_provider="github", oauth_id="A"))
    await users.create_user(create("u2", oauth_provider="github", oauth_id="a"))
    found = await users.get_user_by_oauth("github", "a")
    assert found is not None
    assert found.id == "u2"


async def test_a_duplicate_leaves_the_transaction_usable(session: Session) -> None:
    users = build_user_repository(session)
    await users.create_user(create())
    for again in (create(), create("u2", email="U1@EXAMPLE.COM")):
        with pytest.raises(AlreadyExistsError):
            await users.create_user(again)
    other = await users.create_user(create("u2"))
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.update_user(other.model_copy(update={"email": "u1@example.com"}))
    await session.commit()
    assert await users.count_users() == 2


async def test_the_first_admin_is_the_oldest(users: UserRepository) -> None:
    assert await users.get_first_admin() is None
    day = datetime(2026, 1, 1, tzinfo=UTC)
    for name, role, at in (
        ("c", "admin", day),
        ("b", "admin", day),
        ("a", "admin", day + timedelta(microseconds=1)),
        ("d", "user", day - timedelta(days=1)),
    ):
        await users.create_user(create(name, system_role=role, created_at=at))
    found = await users.get_first_admin()
    assert found is not None
    assert found.id == "b"
    assert await users.count_admin_users() == 3


async def test_only_one_first_admin(users: UserRepository) -> None:
    made = await users.create_first_admin(create())
    assert made.system_role == "admin"
    assert made == await users.get_user_by_id("u1")
    with pytest.raises(AlreadyExistsError):
        await users.create_first_admin(create("u2"))
    assert await users.count_users() == 1


async def test_no_first_admin_beside_another_admin(users: UserRepository) -> None:
    await users.create_user(create(system_role="admin"))
    with pytest.raises(AlreadyExistsError):
        await users.create_first_admin(create("u2"))


async def test_the_first_admin_needs_a_free_address(users: UserRepository) -> None:
    await users.create_user(create())
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.create_first_admin(create("u2", email="U1@Example.com"))
    assert await users.count_admin_users() == 0


async def test_one_first_admin_across_processes(
    users: UserRepository, race: Callable[..., list[Any]]
) -> None:
    for turn in range(2):
        said = race("first_admin", [f"p{turn}{number}" for number in range(3)])
        made = [name for name in said if name != "refused"]
        assert len(made) == 1
        first = await users.get_first_admin()
        assert first is not None
        assert first.id == made[0]
        await users.update_user(first.model_copy(update={"system_role": "user"}))


async def test_a_first_admin_in_a_session_makes_others_wait(
    database: Database, other: Database, engine: str
) -> None:
    import asyncio

    elsewhere = build_user_repository(other)
    async with database.session() as session:
        await build_user_repository(session).create_first_admin(create())
        waiting = asyncio.create_task(elsewhere.create_first_admin(create("u2")))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        await session.commit()
    with pytest.raises(AlreadyExistsError):
        await waiting


async def test_update_changes_all_but_the_age(users: UserRepository) -> None:
    made = await users.create_user(create())
    changed = made.model_copy(
        update={
            "email": "New@Example.com",
            "password_hash": "h",
            "system_role": "admin",
            "created_at": datetime(2000, 1, 1, tzinfo=UTC),
            "oauth_provider": "github",
            "oauth_id": "1",
            "needs_setup": True,
            "token_version": 2**40,
        }
    )
    stored = await users.update_user(changed)
    assert stored == changed.model_copy(update={"created_at": made.created_at})
    assert stored == await users.get_user_by_email("new@example.com")
    assert await users.get_user_by_email("u1@example.com") is None


async def test_setting_what_is_there_is_a_success(users: UserRepository) -> None:
    made = await users.create_user(create())
    assert await users.update_user(made) == made


async def test_an_account_may_change_the_case_of_its_address(users: UserRepository) -> None:
    made = await users.create_user(create())
    stored = await users.update_user(made.model_copy(update={"email": "U1@Example.com"}))
    assert stored.email == "U1@Example.com"


async def test_updating_a_missing_account(users: UserRepository) -> None:
    made = await users.create_user(create())
    with pytest.raises(UserNotFoundError):
        await users.update_user(made.model_copy(update={"id": "u2", "email": "x@example.com"}))


async def test_a_missing_account_is_missing_whatever_keys_it_would_take(
    users: UserRepository,
) -> None:
    made = await users.create_user(create(oauth_provider="github", oauth_id="42"))
    with pytest.raises(UserNotFoundError):
        await users.update_user(made.model_copy(update={"id": "u2"}))


async def test_an_update_cannot_take_what_another_account_has(users: UserRepository) -> None:
    await users.create_user(create(oauth_provider="github", oauth_id="42"))
    mine = await users.create_user(create("u2"))
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.update_user(mine.model_copy(update={"email": "U1@example.com"}))
    with pytest.raises(OAuthIdentityTakenError):
        await users.update_user(
            mine.model_copy(update={"oauth_provider": "github", "oauth_id": "42"})
        )
    assert await users.get_user_by_id("u2") == mine


async def test_concurrent_updates_to_one_address(database: Database, other: Database) -> None:
    import asyncio

    one, two = build_user_repository(database), build_user_repository(other)
    for turn in range(10):
        made = [await one.create_user(create(f"{side}{turn}")) for side in "ab"]
        results = await asyncio.gather(
            *(
                users.update_user(user.model_copy(update={"email": f"Wanted{turn}@example.com"}))
                for users, user in zip((one, two), made, strict=True)
            ),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == [
            "EmailAlreadyRegisteredError",
            "User",
        ]


async def test_an_address_taken_meanwhile_does_not_end_the_callers_transaction(
    database: Database, other: Database
) -> None:
    import asyncio

    users = build_user_repository(database)
    first, second = [await users.create_user(create(id_)) for id_ in ("u1", "u2")]

    async def late() -> None:
        async with other.transaction() as session:
            mine = build_user_repository(session)
            await mine.create_user(create("u3"))
            with pytest.raises(EmailAlreadyRegisteredError):
                await mine.update_user(second.model_copy(update={"email": "wanted@example.com"}))
            await mine.create_user(create("u4"))

    async with database.transaction() as session:
        await build_user_repository(session).update_user(
            first.model_copy(update={"email": "Wanted@example.com"})
        )
        # It waits for the lock: of the file, or of the address in its index.
        task = asyncio.ensure_future(late())
        await asyncio.sleep(0.3)
        assert not task.done()
    await task
    assert await users.count_users() == 4
    assert await users.get_user_by_id("u2") == second


async def test_concurrent_creation_of_one_address(database: Database, other: Database) -> None:
    import asyncio

    one, two = build_user_repository(database), build_user_repository(other)
    for turn in range(10):
        results = await asyncio.gather(
            one.create_user(create(f"a{turn}", email=f"Same{turn}@example.com")),
            two.create_user(create(f"b{turn}", email=f"same{turn}@example.com")),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == [
            "EmailAlreadyRegisteredError",
            "User",
        ]


INSERT = (
    "INSERT INTO users (id, email, system_role, created_at, needs_setup, token_version) "
    "VALUES (%s, %s, 'user', %s, %s, 0)"
)


async def test_accounts_that_differ_only_by_case_are_both_kept(
    users: UserRepository, raw_sql: Callable[..., Any]
) -> None:
    raw_sql(INSERT, "old", "Bob@example.com", "2025-01-01 00:00:00", False)
    raw_sql(INSERT, "new", "bob@example.com", "2025-01-02 00:00:00", False)
    for spelling, name in (
        ("Bob@example.com", "old"),
        ("bob@example.com", "new"),
        ("BOB@example.com", "old"),
    ):
        found = await users.get_user_by_email(spelling)
        assert found is not None
        assert found.id == name
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.create_user(create(email="BOB@EXAMPLE.COM"))
    old = await users.get_user_by_id("old")
    assert old is not None
    assert old.created_at == datetime(2025, 1, 1, tzinfo=UTC)
    stored = await users.update_user(old.model_copy(update={"token_version": 5}))
    assert stored.token_version == 5
    with pytest.raises(EmailAlreadyRegisteredError):
        await users.update_user(stored.model_copy(update={"email": "BOB@example.com"}))


NOT_FIELDS: list[tuple[str, Any]] = [
    ("id", "x" * 37),
    ("email", "x" * 321),
    ("password_hash", "x" * 129),
    ("oauth_provider", "x" * 33),
    ("oauth_id", "x" * 129),
    ("system_role", "root"),
    ("email", "a\x00@b.c"),
    ("token_version", 2**63),
]


async def test_what_does_not_fit_is_refused(users: UserRepository) -> None:
    for field, value in NOT_FIELDS:
        with pytest.raises(InvalidValueError, match=field) as refused:
            await users.create_user(create(**{field: value}))
        assert refused.value.field == field
    assert await users.count_users() == 0


async def test_lengths_count_characters(users: UserRepository) -> None:
    made = await users.create_user(
        create("😀" * 36, email="😀" * 320, oauth_provider="é" * 32, oauth_id="é" * 128)
    )
    assert made == await users.get_user_by_id("😀" * 36)
    assert made == await users.get_user_by_email("😀" * 320)


def test_a_mistyped_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="emial"):
        UserCreate(id="u", email="e", emial="x")


async def test_users_are_frozen(users: UserRepository) -> None:
    made = await users.create_user(create())
    with pytest.raises(ValidationError):
        made.email = "x"
