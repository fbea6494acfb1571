"""Runs as storage: what is kept, how it is listed, who may see it."""

from __future__ import annotations

import enum
import json
import math
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from deerstore.errors import (
    DuplicateIdError,
    IdempotencyConflictError,
    InvalidValueError,
    NotFoundError,
)
from deerstore.repositories import RunCreate, build_run_repository
from tests.repositories.conftest import HOSTILE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database, Session
    from deerstore.repositories import Run, RunRepository

DAY = datetime(2026, 1, 1, tzinfo=UTC)

#: A run as another writer stores it: the columns that every release of DeerFlow has.
INSERT = (
    "INSERT INTO runs (run_id, thread_id, status, multitask_strategy, metadata_json, kwargs_json,"
    " message_count, total_input_tokens, total_output_tokens, total_tokens, llm_call_count,"
    " lead_agent_tokens, subagent_tokens, middleware_tokens, created_at, updated_at)"
    " VALUES (%s, %s, %s, 'reject', %s, %s, 0, 0, 0, 0, 0, 0, 0, 0, %s, %s)"
)


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


def create(run_id: str = "r", thread_id: str = "t", **fields: Any) -> RunCreate:
    return RunCreate(run_id=run_id, thread_id=thread_id, **fields)


def ids(found: list[Run]) -> list[str]:
    return [run.run_id for run in found]


async def test_what_create_returns_is_what_a_read_returns(runs: RunRepository) -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    made = await runs.create_run(
        RunCreate(
            run_id="r",
            thread_id="t",
            assistant_id="lead",
            user_id="u",
            status="running",
            model_name="  gpt-5  ",
            multitask_strategy="rollback",
            error="odd \x00 and \ud800",
            follow_up_to_run_id="r0",
            metadata={"a": {"b": [1, 1.5, None, True, "😀"]}},
            kwargs={"input": ["x", {"y": 0.1}]},
            created_time=datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=east),
            operation_kind="compact",
            stop_reason="limit",
            owner_worker_id="w",
            lease_expires_at=datetime(2026, 1, 1, 6, 0, 0, 1),
            idempotency_key="key",
        )
    )
    read = await runs.get_run("r")
    assert read == made
    assert made.created_time == datetime(2026, 1, 1, 6, 30, 0, 123456, tzinfo=UTC)
    assert made.lease_expires_at == datetime(2026, 1, 1, 6, 0, 0, 1, tzinfo=UTC)
    assert made.created_time.tzinfo is UTC
    assert made.error == "odd \ufffd and \ufffd"
    assert made.model_name == "gpt-5"
    assert made.token_usage_by_model == {}
    assert (made.total_tokens, made.first_human_message, made.cancel_action) == (0, None, None)


async def test_defaults(runs: RunRepository) -> None:
    before = datetime.now(UTC)
    made = await runs.create_run(create())
    assert before <= made.created_time <= datetime.now(UTC)
    assert (made.status, made.operation_kind, made.multitask_strategy) == (
        "pending",
        "run",
        "reject",
    )
    assert (made.metadata, made.kwargs) == ({}, {})
    assert made == await runs.get_run("r")


KWARGS: list[Any] = [
    {"a": [1]},
    [],
    {},
    None,
    0,
    1,
    -1,
    False,
    True,
    1.0,
    1.5,
    -0.0,
    1e300,
    5e-324,
    10**30,
    -(2**63) - 1,
    "",
    "text",
    "1",
    "1.0",
    "[1]",
    "null",
    "true",
    '{"a": 1}',
    "😀",
    "\x00",
    "a\x00b",
    "\ud800",
    "\\ud800",
    " padded ",
    "x" * 100_000,
    {"deep": [[[[{"a": None}]]]]},
    {"\x00": "\x00", "\udfff": 1, "😀": "é"},
    {"n": [0, False, 1, True, 1.0, 10**30, 0.1]},
]


async def test_kwargs_come_back_exactly(runs: RunRepository) -> None:
    for number, value in enumerate(KWARGS):
        made = await runs.create_run(create(str(number), str(number), kwargs=value))
        read = await runs.get_run(str(number))
        (listed,) = await runs.list_runs_by_thread(str(number))
        assert read is not None
        for kwargs in (made.kwargs, read.kwargs, listed.kwargs):
            assert exact(kwargs) == exact(value)


def exact(value: Any) -> Any:
    """A value together with its types, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value), repr(value)


async def test_what_is_not_json_in_kwargs_becomes_its_string(runs: RunRepository) -> None:
    key = uuid.uuid4()
    made = await runs.create_run(create(kwargs={"id": key, "pair": (1, 2), "at": DAY}))
    assert made.kwargs == {"id": str(key), "pair": [1, 2], "at": str(DAY)}
    assert made == await runs.get_run("r")


async def test_kwargs_refuse_nan_and_infinity(runs: RunRepository) -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidValueError, match=r"kwargs\.a\[1\]"):
            await runs.create_run(create(kwargs={"a": [0, value]}))


NOT_METADATA: list[tuple[Any, str]] = [
    ({"a": {"b": math.nan}}, "metadata.a.b"),
    ({"a": [0, math.inf]}, r"metadata.a\[1\]"),
    ({"a": "x\x00"}, "metadata.a"),
    ({"a\x00": 1}, "metadata"),
    ({"a": "\ud800"}, "metadata.a"),
    ({"a": uuid.uuid4()}, "metadata.a"),
    ({"a": (1, 2)}, "metadata.a"),
    ({1: "a"}, "metadata"),
    ([], "metadata"),
    (None, "metadata"),
]


async def test_metadata_is_strict(runs: RunRepository) -> None:
    for metadata, path in NOT_METADATA:
        with pytest.raises(InvalidValueError, match=path):
            await runs.create_run(create(metadata=metadata))
    assert await runs.count_runs() == 0


async def test_metadata_in_the_result_is_not_the_callers(runs: RunRepository) -> None:
    metadata = {"a": [1]}
    made = await runs.create_run(create(metadata=metadata))
    metadata["a"].append(2)
    assert made.metadata == {"a": [1]}


LENGTHS = [
    ("run_id", 64),
    ("thread_id", 64),
    ("assistant_id", 128),
    ("user_id", 64),
    ("follow_up_to_run_id", 64),
    ("owner_worker_id", 128),
    ("idempotency_key", 255),
    ("stop_reason", 50),
    ("operation_kind", 32),
    ("multitask_strategy", 20),
]


async def test_lengths_count_characters(runs: RunRepository) -> None:
    for field, length in LENGTHS:
        with pytest.raises(InvalidValueError) as refused:
            await runs.create_run(create(**{"run_id": field, field: "😀" * (length + 1)}))
        assert refused.value.field == field
        made = await runs.create_run(create(**{"run_id": field, field: "😀" * length}))
        assert getattr(await runs.get_run(made.run_id), field) == "😀" * length


async def test_ids_hold_what_every_engine_can_store(runs: RunRepository) -> None:
    for field in ("run_id", "thread_id", "user_id"):
        for value in ("a\x00b", "\ud800"):
            with pytest.raises(InvalidValueError) as refused:
                await runs.create_run(create(**{field: value}))
            assert refused.value.field == field


async def test_long_texts_have_no_limit(runs: RunRepository) -> None:
    made = await runs.create_run(create(error="é" * 200_000))
    assert made == await runs.get_run("r")


async def test_a_model_name_is_stripped_and_cut(runs: RunRepository) -> None:
    made = await runs.create_run(create(model_name="  " + "m" * 200 + "  "))
    assert made.model_name == "m" * 128
    assert await runs.update_model_name("r", "  other\n")
    assert (await runs.get_run("r")).model_name == "other"
    assert await runs.update_model_name("r", model_name=None)
    assert (await runs.get_run("r")).model_name is None
    assert not await runs.update_model_name("missing", "m")


class Status(enum.StrEnum):
    RUNNING = "running"


async def test_a_string_enum_is_a_string(runs: RunRepository) -> None:
    made = await runs.create_run(create(status=Status.RUNNING))
    assert type(made.status) is str
    assert await runs.update_run_status("r", Status.RUNNING)


async def test_an_unknown_status_is_refused(runs: RunRepository) -> None:
    with pytest.raises(InvalidValueError, match="status"):
        await runs.create_run(create(status="done"))


def test_a_mistyped_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="thraed_id"):
        RunCreate(run_id="r", thread_id="t", thraed_id="t")


async def test_runs_are_frozen_and_serializable(runs: RunRepository) -> None:
    made = await runs.create_run(create(metadata={"a": 1}))
    with pytest.raises(ValidationError):
        made.status = "success"
    assert json.loads(made.model_dump_json())["metadata"] == {"a": 1}
    assert type(made).model_validate(made.model_dump()) == made


async def test_ids_are_compared_code_point_by_code_point(runs: RunRepository) -> None:
    for name in HOSTILE_IDS:
        await runs.create_run(create(name, name, user_id=name))
    for name in HOSTILE_IDS:
        run = await runs.get_run(name, user_id=name)
        assert run is not None
        assert run.run_id == name
        assert ids(await runs.list_runs_by_thread(name)) == [name]
        assert list(await runs.get_runs(name, HOSTILE_IDS)) == [name]


async def test_a_uuid_is_an_id(runs: RunRepository) -> None:
    run, thread, user = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    made = await runs.create_run(RunCreate(run_id=run, thread_id=thread, user_id=user))
    assert (made.run_id, made.thread_id, made.user_id) == (str(run), str(thread), str(user))
    assert await runs.get_run(run, user_id=user) == made
    assert await runs.list_runs_by_thread(thread) == [made]
    assert await runs.get_runs(thread, [run]) == {str(run): made}
    assert await runs.delete_run(run)


async def test_each_constraint_has_its_own_error(runs: RunRepository) -> None:
    made = await runs.create_run(create(idempotency_key="k"))
    with pytest.raises(DuplicateIdError):
        await runs.create_run(create(thread_id="t2"))
    with pytest.raises(IdempotencyConflictError) as refused:
        await runs.create_run(create("r2", "t2", idempotency_key="k"))
    assert refused.value.existing == made
    assert await runs.get_run_by_idempotency_key("k") == made
    assert await runs.get_run_by_idempotency_key("K") is None


async def test_a_duplicate_leaves_the_transaction_usable(session: Session) -> None:
    runs = build_run_repository(session)
    await runs.create_run(create(idempotency_key="k"))
    with pytest.raises(DuplicateIdError):
        await runs.create_run(create())
    with pytest.raises(IdempotencyConflictError):
        await runs.create_run(create("r2", idempotency_key="k"))
    await runs.create_run(create("r3"))
    await session.commit()
    assert await runs.count_runs() == 2


async def test_nothing_lasts_without_commit(database: Database) -> None:
    async with database.session() as session:
        await build_run_repository(session).create_run(create())
    assert await build_run_repository(database).get_run("r") is None


async def test_plain_runs_do_not_take_the_threads_slot(runs: RunRepository) -> None:
    for number in range(3):
        await runs.create_run(create(f"r{number}", status="running"))
    assert (await runs.admit_run(create("r3"))).interrupted == []


async def test_newest_first_then_by_id(runs: RunRepository) -> None:
    for name, at in (("b", 1), ("a", 1), ("B", 1), ("é", 1), ("😀", 1), ("c", 0), ("d", 2)):
        await runs.create_run(create(name, created_time=DAY + timedelta(microseconds=at)))
    everything = ["d", "😀", "é", "b", "a", "B", "c"]
    assert ids(await runs.list_runs_by_thread("t")) == everything
    assert ids(await runs.list_runs_by_thread("t", limit=2, offset=3)) == ["b", "a"]
    assert await runs.list_runs_by_thread("t", limit=0) == []
    assert await runs.list_runs_by_thread("t", offset=100) == []
    walked: list[str] = []
    while page := await runs.list_runs_before(
        "t", before_run_id=walked[-1] if walked else None, limit=2
    ):
        walked += ids(page)
    assert walked == everything


async def test_a_walk_needs_a_place_to_go_on_from(runs: RunRepository) -> None:
    await runs.create_run(create("r1"))
    await runs.create_run(create("r2", "t2"))
    assert await runs.list_runs_before("t", before_run_id="r1") == []
    for missing in ("r2", "r3"):
        with pytest.raises(NotFoundError):
            await runs.list_runs_before("t", before_run_id=missing)


async def test_bounds_are_whole_numbers(runs: RunRepository) -> None:
    bounds: list[Any] = [-1, True, 1.0, "1", 2**63]
    for bound in bounds:
        with pytest.raises(InvalidValueError, match="limit"):
            await runs.list_runs_by_thread("t", limit=bound)
        with pytest.raises(InvalidValueError, match="offset"):
            await runs.list_runs_by_thread("t", offset=bound)
        with pytest.raises(InvalidValueError, match="limit"):
            await runs.list_runs_before("t", limit=bound)


async def test_an_owner_filter_never_matches_a_run_without_owner(runs: RunRepository) -> None:
    await runs.create_run(create("mine", user_id="u"))
    await runs.create_run(create("yours", user_id="U"))
    await runs.create_run(create("nobodys"))
    assert ids(await runs.list_runs_by_thread("t", user_id="u")) == ["mine"]
    assert ids(await runs.list_runs_before("t", before_run_id="nobodys", user_id="u")) == ["mine"]
    assert await runs.list_runs_by_thread("t", user_id="") == []
    assert len(await runs.list_runs_by_thread("t")) == 3
    assert await runs.get_run("nobodys", user_id="u") is None
    assert list(await runs.get_runs("t", ["mine", "yours", "nobodys"], user_id="u")) == ["mine"]
    assert not await runs.delete_run("nobodys", user_id="u")
    assert await runs.delete_run("mine", user_id="u")
    assert await runs.delete_runs_by_thread("t", user_id="U") == 1
    assert await runs.delete_runs_by_thread("t") == 1


async def test_get_runs_keeps_to_the_thread(runs: RunRepository) -> None:
    await runs.create_run(create("r1"))
    await runs.create_run(create("r2", "t2"))
    found = await runs.get_runs("t", ["r1", "r1", "r2", "r3"])
    assert list(found) == ["r1"]
    assert await runs.get_runs("t", []) == {}
    assert list(await runs.get_runs("t", {"r1"})) == ["r1"]
    with pytest.raises(InvalidValueError):
        await runs.get_runs("t", "r1")


async def test_other_operations_can_be_left_out(runs: RunRepository) -> None:
    await runs.create_run(create("r1"))
    await runs.create_run(create("r2", operation_kind="compact"))
    assert len(await runs.list_runs_by_thread("t")) == 2
    assert ids(await runs.list_runs_by_thread("t", runs_only=True)) == ["r1"]
    assert list(await runs.get_runs("t", ["r1", "r2"], runs_only=True)) == ["r1"]
    assert ids(await runs.list_pending(runs_only=True)) == ["r1"]


async def test_inflight_runs_oldest_first(runs: RunRepository) -> None:
    for number, (name, status) in enumerate(
        [
            ("e", "running"),
            ("d", "pending"),
            ("c", "success"),
            ("b", "interrupted"),
            ("a", "pending"),
        ]
    ):
        at = DAY + timedelta(hours=number)
        await runs.create_run(create(name, f"t{number}", status=status, created_time=at))
    await runs.create_run(create("A", "t9", created_time=DAY + timedelta(hours=4)))
    assert ids(await runs.list_inflight()) == ["e", "d", "A", "a"]
    assert ids(await runs.list_pending()) == ["d", "A", "a"]
    assert ids(await runs.list_inflight(before=DAY + timedelta(hours=1))) == ["e", "d"]
    assert ids(await runs.list_pending(before="2026-01-01T03:00:00+02:00")) == ["d"]
    assert ids(await runs.list_pending(before="2026-01-01T00:59:59.999999Z")) == []


async def test_regenerate_sources_of_successful_runs(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    def source(value: Any, **more: Any) -> dict[str, Any]:
        return {"regenerate_from_run_id": value, **more}

    await runs.create_run(create("r1", status="success", metadata=source("a"), user_id="u"))
    await runs.create_run(create("r2", status="success", metadata=source("b")))
    await runs.create_run(create("r3", status="error", metadata=source("c")))
    await runs.create_run(create("r4", status="success", metadata=source("")))
    await runs.create_run(create("r5", status="success", metadata=source(5)))
    await runs.create_run(create("r6", status="success", metadata={"x": source("d")}))
    await runs.create_run(
        create("r7", status="success", metadata=source("e"), operation_kind="compact")
    )
    await runs.create_run(create("r8", "t2", status="success", metadata=source("f")))
    assert await runs.list_successful_regenerate_sources("t") == {"a", "b"}
    assert await runs.list_successful_regenerate_sources("t", user_id="u") == {"a"}


async def test_runs_that_replay_an_edit(runs: RunRepository) -> None:
    edit = {"replay_kind": "edit", "regenerate_from_run_id": "a"}
    for number, (name, metadata) in enumerate(
        [
            ("r4", edit),
            ("r3", {"replay_kind": "edit"}),
            ("r2", {**edit, "replay_kind": "retry"}),
            ("r1", edit),
        ]
    ):
        at = DAY + timedelta(hours=number)
        await runs.create_run(create(name, metadata=metadata, created_time=at, user_id=name))
    assert ids(await runs.list_edit_regenerate_runs("t")) == ["r4", "r1"]
    assert ids(await runs.list_edit_regenerate_runs("t", user_id="r1")) == ["r1"]


STORED = [
    "null",
    "[]",
    '"text"',
    "1",
    "1.5",
    "true",
    '{"a": 1, "a": 2}',
    '{"regenerate_from_run_id": "a", "b": "\\u0000\\ud800"}',
    '{"a": 123456789012345678901234567890}',
    "[" * 600 + "]" * 600,
]


async def test_a_stored_value_of_any_shape_never_fails(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    for number, stored in enumerate(STORED):
        name = str(number)
        raw_sql(INSERT, name, name, "success", stored, stored, "2026-01-01 00:00:00", "2026-01-01")
        (run,) = await runs.list_runs_by_thread(name)
        assert isinstance(run.metadata, dict)
        assert run.created_time == DAY
        assert run.operation_kind == "run"
        assert await runs.get_run(name) == run
        assert await runs.get_runs(name, [name]) == {name: run}
        assert isinstance(await runs.list_successful_regenerate_sources(name), set)
        assert await runs.list_edit_regenerate_runs(name) == []
        assert (await runs.aggregate_tokens_by_thread(name))["total_runs"] == 1
        assert await runs.update_run_status(name, "success", error="again")


@pytest.mark.engines("sqlite", "mysql", why="PostgreSQL's json column takes nothing but JSON")
async def test_stored_text_that_is_not_json_never_fails(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    for number, stored in enumerate(["", "{", "not json", '{"a": NaN}', "NaN"]):
        name = str(number)
        raw_sql(INSERT, name, name, "pending", stored, stored, "2026-01-01 00:00:00", "2026-01-01")
        (run,) = await runs.list_runs_by_thread(name)
        assert isinstance(run.metadata, dict)
    assert len(await runs.list_inflight()) == 5


async def test_old_and_new_runs_sort_together(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    for hour in (1, 3):
        at = f"2026-01-01 0{hour}:00:00.000000"
        raw_sql(INSERT, f"old{hour}", "t", "success", "{}", "{}", at, at)
    await runs.create_run(create("new2", created_time=DAY + timedelta(hours=2)))
    await runs.create_run(create("new4", created_time=DAY + timedelta(hours=4)))
    assert ids(await runs.list_runs_by_thread("t")) == ["new4", "old3", "new2", "old1"]


async def test_delete(runs: RunRepository) -> None:
    await runs.create_run(create())
    assert await runs.delete_run("r")
    assert not await runs.delete_run("r")
    assert await runs.count_runs() == 0
