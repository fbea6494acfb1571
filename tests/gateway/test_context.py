"""The user of the request context."""

from __future__ import annotations

import asyncio
import uuid
from enum import StrEnum
from types import SimpleNamespace

import pytest

from deerstore.gateway import current_user, reset_current_user, set_current_user
from deerstore.gateway.context import CONTEXT_USER, context_user_id, resolve_user_id


class Name(StrEnum):
    ADA = "ada"


IDENTITY = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("ada", "ada"),
        (IDENTITY, str(IDENTITY)),
        (SimpleNamespace(id="u1"), "u1"),
        (SimpleNamespace(id=IDENTITY), str(IDENTITY)),
        (Name.ADA, "ada"),
    ],
)
def test_a_user_is_a_string_a_uuid_or_an_object_with_an_id(user, expected):
    with current_user(user):
        assert resolve_user_id(CONTEXT_USER) == expected
        assert type(context_user_id()) is str
    assert context_user_id() is None
    assert resolve_user_id(user if not hasattr(user, "id") else user.id) == expected


def test_left_out_without_a_context_is_an_error_and_not_everybody():
    with pytest.raises(RuntimeError, match="no user context is set"):
        resolve_user_id(CONTEXT_USER)


def test_an_explicit_none_is_no_filter_even_inside_a_context():
    with current_user("ada"):
        assert resolve_user_id(None) is None
        assert resolve_user_id("bob") == "bob"


def test_contexts_nest_and_are_restored_when_the_block_raises():
    with current_user("outer"):
        with pytest.raises(ValueError, match="x"), current_user("inner"):
            raise ValueError("x")
        assert context_user_id() == "outer"


def test_nobody_signed_in_hides_an_outer_user():
    with current_user("outer"), current_user(None), pytest.raises(RuntimeError):
        resolve_user_id(CONTEXT_USER)


def test_a_token_restores_what_was_set_before():
    token = set_current_user("ada")
    assert context_user_id() == "ada"
    reset_current_user(token)
    assert context_user_id() is None


@pytest.mark.parametrize("user", [object(), 1, SimpleNamespace(id=None)])
def test_something_without_an_id_is_refused(user):
    with pytest.raises(TypeError, match="a user is"):
        set_current_user(user)


async def test_two_tasks_keep_their_own_user():
    async def whoami(user):
        with current_user(user):
            await asyncio.sleep(0.001)
            return resolve_user_id(CONTEXT_USER)

    assert await asyncio.gather(*(whoami(f"u{i}") for i in range(20))) == [
        f"u{i}" for i in range(20)
    ]
