"""Feedback: at most one rating per thread, run and user, nobody included."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import AlreadyExistsError, DuplicateIdError, InvalidValueError
from deerstore.repositories import FeedbackCreate, build_feedback_repository
from tests.repositories.conftest import HOSTILE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import Feedback, FeedbackRepository

INSERT = (
    "INSERT INTO feedback (feedback_id, run_id, thread_id, user_id, message_id, rating, comment,"
    " created_at) VALUES (%s, %s, %s, %s, NULL, %s, NULL, %s)"
)
USERS = pytest.mark.parametrize("user_id", ["u", None])


@pytest.fixture
def ratings(database: Database) -> FeedbackRepository:
    return build_feedback_repository(database)


def create(feedback_id: str = "f", **fields: Any) -> FeedbackCreate:
    return FeedbackCreate(
        **{"feedback_id": feedback_id, "run_id": "r", "thread_id": "t", "rating": 1, **fields}
    )


def ids(found: list[Feedback]) -> list[str]:
    return [feedback.feedback_id for feedback in found]


async def test_what_create_returns_is_what_a_read_returns(ratings: FeedbackRepository) -> None:
    before = datetime.now(UTC)
    made = await ratings.create_feedback(
        create(user_id="u", message_id="m", rating=-1, comment="odd \x00 \ud800 😀" + "x" * 100_000)
    )
    assert made == await ratings.get_feedback("f")
    assert made.comment is not None
    assert made.comment.startswith("odd \ufffd \ufffd 😀")
    assert (made.rating, made.message_id) == (-1, "m")
    assert before <= made.created_at <= datetime.now(UTC)


async def test_a_rating_is_plus_or_minus_one(ratings: FeedbackRepository) -> None:
    others: list[Any] = [0, 2, -2, 5, 0.5, 1.0, "1", True, None]
    for rating in others:
        for store in (ratings.create_feedback, ratings.upsert_feedback):
            with pytest.raises(ValueError, match=r"rating must be \+1 or -1"):
                await store(create(rating=rating))
    assert await ratings.count_feedback() == 0


@USERS
async def test_each_constraint_has_its_own_error(
    ratings: FeedbackRepository, user_id: str | None
) -> None:
    await ratings.create_feedback(create(user_id=user_id))
    with pytest.raises(DuplicateIdError):
        await ratings.create_feedback(create(run_id="r2", user_id=user_id))
    with pytest.raises(AlreadyExistsError) as refused:
        await ratings.create_feedback(create("f2", user_id=user_id))
    assert not isinstance(refused.value, DuplicateIdError)
    await ratings.create_feedback(create("f3", user_id="another"))
    await ratings.create_feedback(create("f4", user_id=""))
    assert await ratings.count_feedback() == 3


async def test_a_duplicate_leaves_the_transaction_usable(session: Session) -> None:
    ratings = build_feedback_repository(session)
    await ratings.create_feedback(create())
    with pytest.raises(AlreadyExistsError):
        await ratings.create_feedback(create("f2"))
    with pytest.raises(DuplicateIdError):
        await ratings.upsert_feedback(create(run_id="r2"))
    await ratings.create_feedback(create("f3", run_id="r3"))
    await session.commit()
    assert await ratings.count_feedback() == 2


@USERS
async def test_upsert_keeps_the_first_id(ratings: FeedbackRepository, user_id: str | None) -> None:
    first = await ratings.upsert_feedback(
        create("f1", user_id=user_id, message_id="m1", comment="good")
    )
    assert first == await ratings.get_feedback("f1")
    again = await ratings.upsert_feedback(create("f2", user_id=user_id, message_id="m2", rating=-1))
    assert again == await ratings.get_feedback("f1")
    assert (again.feedback_id, again.rating, again.message_id, again.comment) == (
        "f1",
        -1,
        "m2",
        None,
    )
    assert await ratings.get_feedback("f2") is None
    assert await ratings.count_feedback() == 1


@USERS
async def test_upsert_may_keep_the_first_message(
    ratings: FeedbackRepository, user_id: str | None
) -> None:
    async def upsert(message_id: str | None) -> str | None:
        feedback = create(str(uuid.uuid4()), user_id=user_id, message_id=message_id)
        return (await ratings.upsert_feedback(feedback, keep_message=True)).message_id

    assert await upsert(None) is None
    assert await upsert("m1") == "m1"
    assert await upsert("m2") == "m1"
    assert await upsert(None) == "m1"


@USERS
async def test_upsert_twice_the_same_counts_as_success(
    ratings: FeedbackRepository, user_id: str | None
) -> None:
    for _ in range(2):
        assert (await ratings.upsert_feedback(create(user_id=user_id))).feedback_id == "f"


async def test_nobody_is_a_user_of_its_own(ratings: FeedbackRepository) -> None:
    for name, user in (("f1", None), ("f2", ""), ("f3", "u"), ("f4", "U"), ("f5", "-")):
        await ratings.upsert_feedback(create(name, user_id=user))
    assert await ratings.count_feedback() == 5
    assert ids(await ratings.list_feedback_by_run("r", user_id="u")) == ["f3"]
    assert ids(await ratings.list_feedback_by_run("r", user_id="")) == ["f2"]


async def test_upsert_does_not_take_the_id_of_another_rating(ratings: FeedbackRepository) -> None:
    made = await ratings.upsert_feedback(create(user_id="u"))
    for other in (
        create(user_id="u2"),
        create(user_id=None),
        create(user_id="u", run_id="r2"),
        create(user_id="u", thread_id="t2"),
    ):
        with pytest.raises(DuplicateIdError):
            await ratings.upsert_feedback(other)
    assert await ratings.get_feedback("f") == made
    assert await ratings.count_feedback() == 1


@USERS
async def test_upsert_is_safe_across_processes(
    ratings: FeedbackRepository, race: Callable[..., list[Any]], user_id: str | None
) -> None:
    said = race("rate", [{"worker": f"w{n}", "times": 15, "user_id": user_id} for n in range(3)])
    assert len({name for names in said for name in names}) == 1
    assert await ratings.count_feedback() == 1


@USERS
async def test_upsert_is_safe_across_bundles(
    database: Database, other: Database, user_id: str | None
) -> None:
    both = build_feedback_repository(database), build_feedback_repository(other)
    for turn in range(10):
        made = await asyncio.gather(
            *(
                each.upsert_feedback(create(f"{turn}-{n}", run_id=f"r{turn}", user_id=user_id))
                for n, each in enumerate(both * 3)
            )
        )
        assert len({feedback.feedback_id for feedback in made}) == 1


async def test_a_rating_of_another_writer_is_met_where_it_stands(
    ratings: FeedbackRepository, raw_sql: Callable[..., Any]
) -> None:
    """It has no user, and no mark of deerstore's before the next setup."""
    raw_sql(INSERT, "theirs", "r", "t", None, 1, "2026-01-01 00:00:00.000000")
    with pytest.raises(AlreadyExistsError) as refused:
        await ratings.create_feedback(create("f1"))
    assert not isinstance(refused.value, DuplicateIdError)
    with pytest.raises(DuplicateIdError):
        await ratings.upsert_feedback(create("theirs", run_id="r2"))

    changed = await ratings.upsert_feedback(create("f1", rating=-1, message_id="m", comment="no"))

    assert changed == await ratings.get_feedback("theirs")
    assert (changed.rating, changed.message_id, changed.comment) == (-1, "m", "no")
    assert (await ratings.latest_feedback_by_run_ids("t", ["r"]))["r"] == changed
    again = await ratings.upsert_feedback(create("f2", message_id="m2"), keep_message=True)
    assert (again.feedback_id, again.rating, again.message_id) == ("theirs", 1, "m")
    assert (await ratings.upsert_feedback(create("theirs"))).feedback_id == "theirs"
    await ratings.create_feedback(create("f3", user_id="u"))
    assert ids(await ratings.list_feedback_by_run("r")) == ["f3", "theirs"]
    assert await ratings.delete_feedback_of_nobody("t", "r")
    await ratings.create_feedback(create("f4"))


async def test_several_ratings_of_another_writer_do_not_become_more(
    ratings: FeedbackRepository, raw_sql: Callable[..., Any]
) -> None:
    for number in range(3):
        raw_sql(INSERT, f"f{number}", "r", "t", None, 1, f"2026-01-0{3 - number % 2} 00:00:00")
    with pytest.raises(AlreadyExistsError):
        await ratings.create_feedback(create("f9"))
    assert (await ratings.upsert_feedback(create("f9"))).feedback_id == "f2"
    assert (await ratings.aggregate_feedback_by_run("t", "r"))["total"] == 3
    await ratings.upsert_feedback(create("own", run_id="r2"))
    raw_sql(INSERT, "late", "r2", "t", None, 1, "2126-01-01 00:00:00")
    assert (await ratings.upsert_feedback(create("f9", run_id="r2"))).feedback_id == "own"
    assert (await ratings.aggregate_feedback_by_run("t", "r2"))["total"] == 2


async def test_a_rating_of_another_writer_stays_one_under_concurrent_callers(
    database: Database, other: Database, raw_sql: Callable[..., Any]
) -> None:
    both = build_feedback_repository(database), build_feedback_repository(other)
    for turn in range(10):
        raw_sql(INSERT, f"theirs{turn}", f"r{turn}", "t", None, 1, "2026-01-01 00:00:00")
        made = await asyncio.gather(
            *(
                each.upsert_feedback(create(f"{turn}-{n}", run_id=f"r{turn}"))
                for n, each in enumerate(both * 3)
            )
        )
        assert {feedback.feedback_id for feedback in made} == {f"theirs{turn}"}
    assert await both[0].count_feedback() == 10


async def test_lists_by_created_then_id(
    ratings: FeedbackRepository, raw_sql: Callable[..., Any]
) -> None:
    early, late = "2026-01-01 00:00:00.000000", "2026-01-01 00:00:00.000001"
    for name, run, user, at in (
        ("b", "r", "u1", early),
        ("a", "r", "u2", early),
        ("B", "r", None, early),
        ("é", "r", "u3", early),
        ("c", "r2", "u1", late),
    ):
        raw_sql(INSERT, name, run, "t", user, 1, at)
    raw_sql(INSERT, "z", "r", "t2", "u1", 1, late)
    assert ids(await ratings.list_feedback_by_thread("t")) == ["c", "é", "b", "a", "B"]
    oldest = await ratings.list_feedback_by_thread("t", order="oldest")
    assert ids(oldest) == ["B", "a", "b", "é", "c"]
    assert ids(await ratings.list_feedback_by_thread("t", limit=2)) == ["c", "é"]
    assert ids(await ratings.list_feedback_by_thread("t", user_id="u1")) == ["c", "b"]
    assert await ratings.list_feedback_by_thread("t", limit=0) == []
    assert ids(await ratings.list_feedback_by_run("r")) == ["z", "é", "b", "a", "B"]
    assert ids(await ratings.list_feedback_by_run("r", thread_id="t")) == ["é", "b", "a", "B"]
    oldest = await ratings.list_feedback_by_run("r", thread_id="t", order="oldest", limit=3)
    assert ids(oldest) == ["B", "a", "b"]
    assert ids(await ratings.list_feedback_by_run("r", user_id="u1")) == ["z", "b"]
    with pytest.raises(InvalidValueError, match="limit"):
        await ratings.list_feedback_by_run("r", limit=-1)
    with pytest.raises(InvalidValueError, match="order"):
        await ratings.list_feedback_by_run("r", order="newst")


async def test_the_latest_of_each_run(
    ratings: FeedbackRepository, raw_sql: Callable[..., Any]
) -> None:
    early, late = "2026-01-01 00:00:00.000000", "2026-01-01 00:00:00.000001"
    for name, run, user, at in (
        ("z", "r1", "u1", early),
        ("a", "r1", "u2", late),
        ("b", "r1", None, late),
        ("c", "r2", "u1", early),
        ("d", "r3", "u1", early),
    ):
        raw_sql(INSERT, name, run, "t", user, 1, at)
    raw_sql(INSERT, "y", "r1", "t2", "u1", 1, late)

    def named(found: dict[str, Feedback]) -> dict[str, str]:
        return {run: feedback.feedback_id for run, feedback in found.items()}

    latest = ratings.latest_feedback_by_run_ids
    assert named(await latest("t", ["r1", "r2", "r2", "none"])) == {"r1": "b", "r2": "c"}
    assert named(await latest("t", {"r1"}, user_id="u1")) == {"r1": "z"}
    assert await latest("t", []) == {}
    assert named(await ratings.latest_feedback_by_thread("t")) == {"r1": "b", "r2": "c", "r3": "d"}
    mine = await ratings.latest_feedback_by_thread("t", user_id="u2")
    assert named(mine) == {"r1": "a"}


async def test_an_owner_filter_never_matches_a_rating_of_nobody(
    ratings: FeedbackRepository,
) -> None:
    await ratings.create_feedback(create("f1"))
    await ratings.create_feedback(create("f2", user_id="u"))
    assert await ratings.get_feedback("f1", user_id="u") is None
    assert await ratings.get_feedback("f2", user_id="u") is not None
    assert not await ratings.delete_feedback("f1", user_id="u")
    assert await ratings.delete_feedback("f2", user_id="u")
    assert await ratings.delete_feedback("f1")
    assert not await ratings.delete_feedback("f1")


async def test_delete_by_run(ratings: FeedbackRepository) -> None:
    async def fill() -> None:
        for name, user in (("f1", None), ("f2", "u"), ("f3", "u2")):
            await ratings.upsert_feedback(create(name, user_id=user))

    await fill()
    assert await ratings.delete_feedback_by_run("t", "r", user_id="u")
    assert not await ratings.delete_feedback_by_run("t", "r", user_id="u")
    assert not await ratings.delete_feedback_by_run("t2", "r")
    assert await ratings.count_feedback() == 2
    assert await ratings.delete_feedback_of_nobody("t", "r")
    assert not await ratings.delete_feedback_of_nobody("t", "r")
    assert ids(await ratings.list_feedback_by_run("r")) == ["f3"]
    await fill()
    assert await ratings.delete_feedback_by_run("t", "r")
    assert await ratings.count_feedback() == 0
    await fill()
    assert await ratings.delete_feedback_by_thread("t", user_id="u") == 1
    assert await ratings.delete_feedback_by_thread("t") == 2


async def test_counts_of_a_run(ratings: FeedbackRepository, raw_sql: Callable[..., Any]) -> None:
    nothing = {"run_id": "r", "total": 0, "positive": 0, "negative": 0}
    assert await ratings.aggregate_feedback_by_run("t", "r") == nothing
    for number, rating in enumerate((1, 1, -1)):
        await ratings.create_feedback(create(f"f{number}", user_id=f"u{number}", rating=rating))
    raw_sql(INSERT, "odd", "r", "t", "u9", 5, "2026-01-01 00:00:00")
    expected = {"run_id": "r", "total": 4, "positive": 2, "negative": 1}
    assert await ratings.aggregate_feedback_by_run("t", "r") == expected
    assert await ratings.aggregate_feedback_by_run("r") == expected
    assert await ratings.aggregate_feedback_by_run(thread_id="t", run_id="r") == expected
    assert await ratings.aggregate_feedback_by_run("r", thread_id="t") == expected
    assert await ratings.aggregate_feedback_by_run("t", run_id="r") == expected
    assert await ratings.aggregate_feedback_by_run("t2", "r") == nothing
    with pytest.raises(InvalidValueError, match="run_id"):
        await ratings.aggregate_feedback_by_run(thread_id="t")


async def test_ids_are_compared_code_point_by_code_point(ratings: FeedbackRepository) -> None:
    for name in HOSTILE_IDS:
        await ratings.upsert_feedback(create(name, run_id=name, thread_id=name, user_id=name))
    assert await ratings.count_feedback() == len(HOSTILE_IDS)
    for name in HOSTILE_IDS:
        assert ids(await ratings.list_feedback_by_run(name, user_id=name)) == [name]
        assert ids(await ratings.list_feedback_by_thread(name)) == [name]
        assert list(await ratings.latest_feedback_by_run_ids(name, HOSTILE_IDS)) == [name]


async def test_lengths_count_characters(ratings: FeedbackRepository) -> None:
    for field in ("feedback_id", "run_id", "thread_id", "user_id", "message_id"):
        with pytest.raises(InvalidValueError) as refused:
            await ratings.upsert_feedback(create(**{"feedback_id": field, field: "é" * 65}))
        assert refused.value.field == field
        made = await ratings.upsert_feedback(create(**{"feedback_id": field, field: "é" * 64}))
        assert getattr(made, field) == "é" * 64


async def test_a_uuid_is_an_id(ratings: FeedbackRepository) -> None:
    name, run, thread, user = (uuid.uuid4() for _ in range(4))
    made = await ratings.upsert_feedback(
        FeedbackCreate(feedback_id=name, run_id=run, thread_id=thread, user_id=user, rating=1)
    )
    assert made.feedback_id == str(name)
    assert await ratings.get_feedback(name, user_id=user) == made
    assert await ratings.list_feedback_by_run(run, thread_id=thread) == [made]
    assert await ratings.delete_feedback_by_run(thread, run, user_id=user)
