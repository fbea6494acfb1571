"""Threads as storage: what is kept, how it is changed, who may see it, in which order."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from deerstore.errors import DuplicateIdError, InvalidValueError
from deerstore.repositories import ThreadMetaCreate, build_thread_meta_repository
from deerstore.schema.migrations import load_migrations
from tests.repositories.conftest import HOSTILE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import ThreadMeta, ThreadMetaRepository

#: A thread as another writer stores it.
INSERT = (
    "INSERT INTO threads_meta (thread_id, user_id, status, metadata_json, created_at, updated_at)"
    " VALUES (%s, %s, 'idle', %s, %s, %s)"
)

DAY = "2026-01-01 00:00:00.000000"


@pytest.fixture
def threads(database: Database) -> ThreadMetaRepository:
    return build_thread_meta_repository(database)


def create(thread_id: str = "t", **fields: Any) -> ThreadMetaCreate:
    return ThreadMetaCreate(thread_id=thread_id, **fields)


def ids(found: list[ThreadMeta]) -> list[str]:
    return [thread.thread_id for thread in found]


async def get(threads: ThreadMetaRepository, thread_id: str = "t") -> ThreadMeta:
    found = await threads.get_thread_meta(thread_id)
    assert found is not None
    return found


# -- storage -------------------------------------------------------------------------------------


async def test_what_create_returns_is_what_a_read_returns(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(
        create(
            assistant_id="lead",
            user_id="u",
            display_name="Straße 😀",
            status="busy",
            metadata={"ü": [1, 2.5, {"n": None}], "t": True, "big": 10**30},
        )
    )
    assert made == await get(threads)
    assert made.created_time == made.updated_time
    assert made.created_time.tzinfo is UTC
    (found,) = await threads.search_threads()
    assert found == made


async def test_defaults(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(create())
    assert (made.assistant_id, made.user_id, made.display_name) == (None, None, None)
    assert (made.status, made.metadata) == ("idle", {})
    assert await threads.get_thread_meta("none") is None
    assert await threads.count_threads() == 1


async def test_a_taken_id_is_a_duplicate_and_changes_nothing(
    threads: ThreadMetaRepository,
) -> None:
    made = await threads.create_thread_meta(create(metadata={"k": 1}))
    with pytest.raises(DuplicateIdError, match="'t'"):
        await threads.create_thread_meta(create(metadata={"k": 2}))
    assert await get(threads) == made
    assert ids(await threads.search_threads(metadata={"k": 1})) == ["t"]
    assert await threads.search_threads(metadata={"k": 2}) == []


async def test_a_duplicate_leaves_the_transaction_usable(
    session: Session, threads: ThreadMetaRepository
) -> None:
    inside = build_thread_meta_repository(session)
    await inside.create_thread_meta(create("a"))
    with pytest.raises(DuplicateIdError):
        await inside.create_thread_meta(create("a"))
    await inside.create_thread_meta(create("b", metadata={"k": 1}))
    await session.commit()
    assert ids(await threads.search_threads()) == ["b", "a"]


async def test_what_is_rolled_back_is_not_found(
    session: Session, threads: ThreadMetaRepository
) -> None:
    inside = build_thread_meta_repository(session)
    await inside.create_thread_meta(create(metadata={"k": 1}))
    assert ids(await inside.search_threads(metadata={"k": 1})) == ["t"]
    await session.rollback()
    assert await threads.search_threads(metadata={"k": 1}) == []


async def test_ids_are_compared_code_point_by_code_point(threads: ThreadMetaRepository) -> None:
    for each in HOSTILE_IDS:
        await threads.create_thread_meta(
            create(each, user_id=each, assistant_id=each, status=each[:20])
        )
    for each in HOSTILE_IDS:
        assert (await get(threads, each)).thread_id == each
        assert ids(await threads.search_threads(user_id=each)) == [each]
        assert ids(await threads.search_threads(assistant_id=each)) == [each]
        assert ids(await threads.search_threads(status=each)) == [each]
        assert await threads.get_thread_meta(each, user_id=each + "x") is None
    for each in HOSTILE_IDS:
        assert await threads.delete_thread(each, user_id=each)
    assert await threads.search_threads() == []


async def test_a_uuid_is_an_id(threads: ThreadMetaRepository) -> None:
    one = uuid.uuid4()
    await threads.create_thread_meta(create(one, user_id=one))
    assert (await threads.search_threads(user_id=one))[0].thread_id == str(one)
    assert await threads.update_owner(one, uuid.UUID(int=1), user_id=one)
    assert await threads.check_access(one, uuid.UUID(int=1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("thread_id", "x" * 65),
        ("thread_id", "a\x00"),
        ("assistant_id", "x" * 129),
        ("user_id", "x" * 65),
        ("display_name", "x" * 257),
        ("status", "x" * 21),
        ("metadata", {"a": {"b": [math.nan]}}),
        ("metadata", {"a": "\ud800"}),
        ("metadata", {"a": {1}}),
        ("metadata", []),
    ],
)
async def test_a_bad_value_is_refused_by_its_field(
    threads: ThreadMetaRepository, field: str, value: Any
) -> None:
    with pytest.raises(InvalidValueError, match=field):
        await threads.create_thread_meta(create(**{"thread_id": "t", field: value}))
    assert await threads.count_threads() == 0


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValidationError):
        create(title="x")


async def test_a_name_may_hold_any_unicode(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(create(display_name="a\x00b\ud800😀"))
    assert made.display_name == "a\ufffdb\ufffd😀"
    assert await get(threads) == made


# -- updates -------------------------------------------------------------------------------------


async def test_update_changes_what_is_given(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(create(display_name="n", metadata={"a": 1, "b": 2}))
    assert await threads.update_thread_meta("t", status="busy")
    found = await get(threads)
    assert (found.display_name, found.status, found.metadata) == ("n", "busy", {"a": 1, "b": 2})
    assert found.updated_time > made.updated_time
    assert found.created_time == made.created_time
    assert await threads.update_thread_meta("t", display_name="m", metadata={"c": 3})
    found = await get(threads)
    assert (found.display_name, found.status, found.metadata) == ("m", "busy", {"c": 3})
    assert await threads.search_threads(metadata={"a": 1}) == []
    assert ids(await threads.search_threads(metadata={"c": 3}, status="busy")) == ["t"]


async def test_an_update_that_changes_nothing_is_a_success(threads: ThreadMetaRepository) -> None:
    await threads.create_thread_meta(create(user_id="u", display_name="n", metadata={"a": 1}))
    assert await threads.update_thread_meta("t", status="idle", metadata={"a": 1})
    assert await threads.update_display_name("t", "n")
    assert await threads.update_status("t", "idle")
    assert await threads.update_owner("t", "u")
    assert await threads.merge_thread_metadata("t", {"a": 1})
    assert await threads.merge_thread_metadata("t", {}, touch=False)


async def test_a_missing_thread_is_reported(threads: ThreadMetaRepository) -> None:
    assert not await threads.update_thread_meta("t", status="busy")
    assert not await threads.update_display_name("t", "n")
    assert not await threads.update_status("t", "busy")
    assert not await threads.update_owner("t", "u")
    assert not await threads.merge_thread_metadata("t", {"a": 1})
    assert not await threads.delete_thread("t")


async def test_a_name_can_be_taken_away(threads: ThreadMetaRepository) -> None:
    await threads.create_thread_meta(create(display_name="n"))
    assert await threads.update_display_name("t", None)
    assert (await get(threads)).display_name is None


@pytest.mark.parametrize("owner", [None, "u"])
async def test_another_users_filter_changes_nothing(
    threads: ThreadMetaRepository, owner: str | None
) -> None:
    made = await threads.create_thread_meta(create(user_id=owner, metadata={"a": 1}))
    assert await threads.get_thread_meta("t", user_id="x") is None
    assert not await threads.update_thread_meta("t", status="busy", user_id="x")
    assert not await threads.update_display_name("t", "n", user_id="x")
    assert not await threads.update_status("t", "busy", user_id="x")
    assert not await threads.update_owner("t", "x", user_id="x")
    assert not await threads.merge_thread_metadata("t", {"a": 2}, user_id="x")
    assert not await threads.delete_thread("t", user_id="x")
    assert await get(threads) == made


async def test_a_thread_gets_another_owner(threads: ThreadMetaRepository) -> None:
    await threads.create_thread_meta(create(user_id="u", metadata={"a": 1}))
    assert await threads.update_owner("t", "v", user_id="u")
    assert await threads.search_threads(user_id="u") == []
    assert ids(await threads.search_threads(user_id="v", metadata={"a": 1})) == ["t"]
    assert await threads.update_owner("t", None)
    assert await threads.search_threads(user_id="v") == []
    assert (await get(threads)).user_id is None


async def test_who_may_use_a_thread(threads: ThreadMetaRepository) -> None:
    await threads.create_thread_meta(create("owned", user_id="u"))
    await threads.create_thread_meta(create("shared"))
    assert await threads.check_access("owned", "u")
    assert not await threads.check_access("owned", "U")
    assert not await threads.check_access("owned", "u ", require_existing=True)
    assert await threads.check_access("shared", "u", require_existing=True)
    assert await threads.check_access("missing", "u")
    assert not await threads.check_access("missing", "u", require_existing=True)
    assert await threads.check_access("owned", None)


# -- metadata patches ----------------------------------------------------------------------------


async def test_a_patch_is_shallow_and_keeps_the_other_keys(threads: ThreadMetaRepository) -> None:
    await threads.create_thread_meta(create(metadata={"a": 1, "n": {"x": 1, "y": 2}, "z": 0}))
    patch = {"n": {"x": 9}, "z": None, "new": [1], "ü": "é"}
    assert await threads.merge_thread_metadata("t", patch)
    assert (await get(threads)).metadata == {
        "a": 1,
        "n": {"x": 9},
        "z": None,
        "new": [1],
        "ü": "é",
    }
    assert ids(await threads.search_threads(metadata={"z": None, "a": 1})) == ["t"]
    assert await threads.search_threads(metadata={"z": 0}) == []


async def test_touch_decides_on_the_recency(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(create())
    assert await threads.merge_thread_metadata("t", {"a": 1}, touch=False)
    assert (await get(threads)).updated_time == made.updated_time
    assert await threads.merge_thread_metadata("t", {"a": 2})
    assert (await get(threads)).updated_time > made.updated_time


async def test_a_bad_patch_is_refused(threads: ThreadMetaRepository) -> None:
    made = await threads.create_thread_meta(create(metadata={"a": 1}))
    for patch in ({"a": math.inf}, {"a": "\x00"}, {1: 2}, [], None):
        with pytest.raises(InvalidValueError, match="metadata"):
            await threads.merge_thread_metadata("t", patch)
    assert await get(threads) == made


async def test_concurrent_patches_of_different_keys_all_survive(
    race: Callable[..., list[Any]], threads: ThreadMetaRepository
) -> None:
    await threads.create_thread_meta(create(metadata={"first": 1}))
    work = [[f"{worker}{n}" for n in range(40)] for worker in ("a", "b")]
    said = await asyncio.to_thread(race, "patch", work)
    assert all(map(all, said))
    keys = work[0] + work[1]
    assert (await get(threads)).metadata == {"first": 1, **{key: key for key in keys}}
    assert ids(await threads.search_threads(metadata={key: key for key in keys})) == ["t"]


async def test_a_patch_waits_for_a_session_that_patches(
    session: Session, threads: ThreadMetaRepository
) -> None:
    await threads.create_thread_meta(create())
    inside = build_thread_meta_repository(session)
    assert await inside.merge_thread_metadata("t", {"a": 1})
    waiting = asyncio.create_task(threads.merge_thread_metadata("t", {"b": 2}))
    await asyncio.sleep(0.1)
    await session.commit()
    assert await waiting
    assert (await get(threads)).metadata == {"a": 1, "b": 2}


@pytest.mark.engines("sqlite", "mysql", why="a json column of PostgreSQL holds JSON only")
async def test_a_patch_keeps_nan_of_an_old_row(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    raw_sql(INSERT, "t", None, '{"a": NaN, "b": [Infinity]}', DAY, DAY)
    assert await threads.merge_thread_metadata("t", {"c": 1})
    metadata = (await get(threads)).metadata
    assert math.isnan(metadata.pop("a"))
    assert metadata == {"b": [math.inf], "c": 1}
    assert ids(await threads.search_threads(metadata={"c": 1})) == ["t"]


async def test_a_patch_replaces_what_is_no_object(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    for n, stored in enumerate(["null", "[1]", '"x"', "3"]):
        raw_sql(INSERT, f"t{n}", None, stored, DAY, DAY)
        assert (await get(threads, f"t{n}")).metadata == {}
        assert await threads.merge_thread_metadata(f"t{n}", {"k": n})
        assert (await get(threads, f"t{n}")).metadata == {"k": n}


# -- lists ---------------------------------------------------------------------------------------


async def test_created_order_is_newest_first_then_by_id(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    early, late = "2026-01-01 00:00:00.000001", "2026-01-01 00:00:00.000002"
    for thread, time in (("b", early), ("é", early), ("B", early), ("c", late), ("a ", early)):
        raw_sql(INSERT, thread, "u", '{"k": 1}', time, early)
    expected = ["c", "é", "b", "a ", "B"]
    for filters in ({}, {"user_id": "u"}, {"metadata": {"k": 1}}, {"status": "idle"}):
        assert ids(await threads.search_threads(**filters)) == expected
    paged = [ids(await threads.search_threads(limit=2, offset=n)) for n in (0, 2, 4, 6)]
    assert paged == [expected[:2], expected[2:4], expected[4:], []]
    assert await threads.search_threads(limit=0) == []


async def test_recent_order_has_pinned_threads_first(threads: ThreadMetaRepository) -> None:
    pins = {
        "a": {"deerflow_pinned": True},
        "b": {},
        "c": {"deerflow_pinned": True},
        "d": {"deerflow_pinned": 1},
        "e": {"deerflow_pinned": "true"},
        "f": {"deerflow_pinned": None},
        "g": {"deerflow_pinned": [True]},
        "h": {"deerflow_pinned": False},
    }
    for thread, metadata in pins.items():
        await threads.create_thread_meta(create(thread, metadata={"k": 1, **metadata}))
    for filters in ({}, {"metadata": {"k": 1}}):
        found = await threads.search_threads(order="recent", **filters)
        assert ids(found) == ["c", "a", "h", "g", "f", "e", "d", "b"]
    await threads.update_status("b", "busy")
    await threads.update_status("a", "busy")
    await threads.merge_thread_metadata("h", {"x": 1}, touch=False)
    await threads.merge_thread_metadata("c", {"deerflow_pinned": False}, touch=False)
    for filters in ({}, {"metadata": {"k": 1}}):
        found = await threads.search_threads(order="recent", **filters)
        assert ids(found) == ["a", "b", "h", "g", "f", "e", "d", "c"]
    assert ids(await threads.search_threads()) == list("hgfedcba")


async def test_filters_are_combined(threads: ThreadMetaRepository) -> None:
    for n in range(24):
        await threads.create_thread_meta(
            create(
                f"t{n:02}",
                user_id=f"u{n % 2}",
                assistant_id=f"a{n % 3}",
                status=["idle", "busy"][n % 4 == 0],
                metadata={"mod": n % 6, "n": n},
            )
        )
    found = await threads.search_threads(user_id="u0", assistant_id="a0")
    assert ids(found) == ["t18", "t12", "t06", "t00"]
    found = await threads.search_threads(user_id="u0", assistant_id="a0", status="busy")
    assert ids(found) == ["t12", "t00"]
    found = await threads.search_threads(user_id="u0", metadata={"mod": 0}, limit=2, offset=1)
    assert ids(found) == ["t12", "t06"]
    assert ids(await threads.search_threads(metadata={"mod": 3, "n": 9})) == ["t09"]
    assert await threads.search_threads(user_id="u0", metadata={"mod": 3}) == []


async def test_a_filter_by_owner_never_matches_a_shared_thread(
    threads: ThreadMetaRepository,
) -> None:
    await threads.create_thread_meta(create("shared", metadata={"k": 1}))
    await threads.create_thread_meta(create("mine", user_id="u", metadata={"k": 1}))
    assert ids(await threads.search_threads(user_id="u")) == ["mine"]
    assert ids(await threads.search_threads(user_id="u", metadata={"k": 1})) == ["mine"]
    assert await threads.search_threads(user_id="") == []
    assert ids(await threads.search_threads()) == ["mine", "shared"]


async def test_the_driving_filter_never_changes_the_answer(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        raw_sql(INSERT, f"{n:02}", "u", json.dumps({"all": 1, "few": n % 10}), DAY, DAY)
    expected = ["23", "13", "03"]
    for depths in ((200,), (2, 10), (1, 2), (29,), (30,)):
        monkeypatch.setattr("deerstore.repositories.threads._DEPTHS", depths)
        for metadata in ({"all": 1, "few": 3}, {"few": 3, "all": 1}):
            assert ids(await threads.search_threads(metadata=metadata)) == expected
            found = await threads.search_threads(metadata=metadata, user_id="u", limit=2)
            assert ids(found) == expected[:2]


@pytest.mark.parametrize("argument", [{"limit": -1}, {"offset": -1}, {"limit": True}, {"order": 1}])
async def test_a_bad_page_is_refused(threads: ThreadMetaRepository, argument: Any) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(argument))):
        await threads.search_threads(**argument)


# -- other writers -------------------------------------------------------------------------------


async def test_the_index_follows_every_writer(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    next_day = "2026-01-02 00:00:00.000000"
    raw_sql(INSERT, "a", "u", '{"k": 1}', DAY, DAY)
    raw_sql(INSERT, "b", "u", '{"k": 1}', DAY, DAY)
    assert ids(await threads.search_threads(metadata={"k": 1}, order="recent")) == ["b", "a"]
    raw_sql("UPDATE threads_meta SET updated_at = %s WHERE thread_id = 'a'", next_day)
    assert ids(await threads.search_threads(metadata={"k": 1}, order="recent")) == ["a", "b"]
    raw_sql("UPDATE threads_meta SET status = 'x', user_id = NULL WHERE thread_id = 'a'")
    assert ids(await threads.search_threads(status="x")) == ["a"]
    assert ids(await threads.search_threads(user_id="u")) == ["b"]
    raw_sql("UPDATE threads_meta SET thread_id = 'c' WHERE thread_id = 'a'")
    assert ids(await threads.search_threads(metadata={"k": 1})) == ["c", "b"]
    raw_sql("UPDATE threads_meta SET metadata_json = %s WHERE thread_id = 'b'", '{"k": 2}')
    assert ids(await threads.search_threads(metadata={"k": 1})) == ["c"]
    raw_sql("DELETE FROM threads_meta WHERE thread_id = 'c'")
    assert await threads.search_threads(metadata={"k": 1}) == []
    rows = raw_sql("SELECT DISTINCT thread_id FROM threads_meta_index")
    assert rows == [("b",)]


async def test_the_index_heals_what_is_missing_when_the_row_is_written(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    await threads.create_thread_meta(create(metadata={"k": 1}))
    raw_sql("DELETE FROM threads_meta_index")
    assert await threads.search_threads() == []
    raw_sql("UPDATE threads_meta SET thread_id = thread_id")
    assert ids(await threads.search_threads(metadata={"k": 1})) == ["t"]


async def test_the_migration_fills_in_what_is_missing_as_often_as_it_runs(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any], engine: str
) -> None:
    (migration,) = [each for each in load_migrations(engine) if each.id == "0004_threads_meta"]
    for n in range(3):
        await threads.create_thread_meta(create(f"t{n}", metadata={"k": n}))
    count = "SELECT COUNT(*) FROM threads_meta_index"
    complete = raw_sql(count)
    raw_sql("DELETE FROM threads_meta_index WHERE thread_id <> 't1'")
    fill = [each for each in migration.statements if not each.startswith("CREATE")][-1]
    for _ in range(2):
        raw_sql(fill)
        assert raw_sql(count) == complete
    for statement in migration.statements:
        raw_sql(statement.replace("%", "%%") if engine != "sqlite" else statement)
    assert raw_sql(count) == complete
    assert ids(await threads.search_threads(metadata={"k": 2})) == ["t2"]


@pytest.mark.engines("sqlite", why="the others hold a column to its length")
async def test_over_long_values_of_other_writers_are_listed(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    raw_sql(INSERT, "x" * 500, "u" * 500, json.dumps({"k" * 500: 1, "k": 1}), DAY, DAY)
    (found,) = await threads.search_threads(metadata={"k": 1})
    assert found.user_id == "u" * 500
