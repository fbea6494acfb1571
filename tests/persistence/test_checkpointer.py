"""The checkpointer: the same state comes back on every engine, or is refused."""

from __future__ import annotations

import asyncio
import enum
import math
import operator
import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from deerstore.errors import (
    InvalidValueError,
    PoolTimeoutError,
    QueryExecutionError,
    RetryableError,
)
from deerstore.persistence import create_persistence_from_storage_config
from tests.fixtures.fix_databases import configured
from tests.persistence.states import place, put, state

if TYPE_CHECKING:
    from deerstore.persistence import AppPersistence


def test_each_engine_has_langgraphs_own_classes():
    from langgraph.checkpoint.mysql.aio import AIOMySQLSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.store.mysql.aio import AIOMySQLStore
    from langgraph.store.postgres.aio import AsyncPostgresStore
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    from deerstore.persistence.mysql import MySQLCheckpointer, MySQLStore
    from deerstore.persistence.postgres import PostgresCheckpointer, PostgresStore
    from deerstore.persistence.sqlite import SqliteCheckpointer, SqliteStore

    assert issubclass(SqliteCheckpointer, AsyncSqliteSaver)
    assert issubclass(PostgresCheckpointer, AsyncPostgresSaver)
    assert issubclass(MySQLCheckpointer, AIOMySQLSaver)
    assert issubclass(SqliteStore, AsyncSqliteStore)
    assert issubclass(PostgresStore, AsyncPostgresStore)
    assert issubclass(MySQLStore, AIOMySQLStore)


VALUES: dict[str, Any] = {
    "nothing": None,
    "truth": True,
    "whole": 7,
    "largest": 2**63 - 1,
    "beyond_signed": 2**63,
    "fraction": 0.1,
    "like_whole": 1.0,
    "huge": 1e22,
    "tiny": 5e-324,
    "minus_zero": -0.0,
    "infinite": math.inf,
    "text": "plain",
    "empty": "",
    "nul": "a\0b",
    "emoji": "🦌 é ß",
    "quoted": "'\"\\%s%%",
    "json_like": '{"a": [1]}',
    "bytes": b"\x00\xff'\\",
    "list": ["a", {"b": [1, 2.5, None, "x\0"]}],
    "wide": "x" * 300_000,
    "object": {"k": "v"},
}


async def test_every_value_comes_back_as_it_was_with_its_type(persistence: AppPersistence):
    saver = persistence.checkpointer
    config = await put(saver, place("t"), state(**VALUES))
    found = await saver.aget_tuple(config)
    assert found is not None
    back = found.checkpoint["channel_values"]
    assert back == VALUES
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in VALUES.items()
    }
    assert math.copysign(1, back["minus_zero"]) == -1
    listed = [each async for each in saver.alist(place("t"))]
    assert [each.checkpoint["channel_values"] for each in listed] == [VALUES]


async def test_a_nan_comes_back_as_one(persistence: AppPersistence):
    saver = persistence.checkpointer
    config = await put(saver, place("t"), state(n=math.nan))
    found = await saver.aget_tuple(config)
    assert found is not None
    assert math.isnan(found.checkpoint["channel_values"]["n"])


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.filterwarnings("default")  # LangGraph warns about classes that it does not know
async def test_an_enum_that_is_a_string_stays_one(persistence: AppPersistence):
    saver = persistence.checkpointer
    config = await put(saver, place("t"), state(colour=Colour.RED))
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["colour"] == "red"


async def test_pending_writes_come_back_in_their_order(persistence: AppPersistence):
    saver = persistence.checkpointer
    config = await put(saver, place("t"), state(a=1))
    await saver.aput_writes(config, [("b", "x\0"), ("c", b"\xff"), ("d", 1e22)], "task2", "p1")
    await saver.aput_writes(config, [("a", [1])], "task1", "p2")
    # The first write of a task's position stays.
    await saver.aput_writes(config, [("b", "late")], "task2", "p1")
    await saver.aput_writes(config, [("__interrupt__", 1)], "task1", "p2")
    await saver.aput_writes(config, [("__interrupt__", 2)], "task1", "p2")
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes is not None
    assert sorted(found.pending_writes, key=str) == sorted(
        [
            ("task2", "b", "x\0"),
            ("task2", "c", b"\xff"),
            ("task2", "d", 1e22),
            ("task1", "__interrupt__", 2),
            ("task1", "a", [1]),
        ],
        key=str,
    )
    assert [channel for task, channel, _ in found.pending_writes if task == "task2"] == list("bcd")


async def test_ids_are_compared_code_point_by_code_point(persistence: AppPersistence):
    saver = persistence.checkpointer
    ids = ["t", "T", "t ", "t\t", "é", "e", "E\u0301", "ß", "ss", "🦌", "%", "_"]
    for thread_id in ids:
        await put(saver, place(thread_id), state(who=thread_id))
    for thread_id in ids:
        found = await saver.aget_tuple(place(thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"who": thread_id}
        assert len([each async for each in saver.alist(place(thread_id))]) == 1
    await saver.adelete_thread("t")
    assert await saver.aget_tuple(place("t")) is None
    assert await saver.aget_tuple(place("t ")) is not None


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "a.b", "$.c", "it's", "Größe ", "%s"])
async def test_a_channel_may_have_any_name(persistence: AppPersistence, name: str):
    saver = persistence.checkpointer
    config = await put(saver, place("t", 'ns:"x"|\\y'), state(**{name: ["v"], "other": 1}))
    await saver.aput_writes(config, [(name, "w")], "task")
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {name: ["v"], "other": 1}
    assert found.pending_writes == [("task", name, "w")]


async def test_a_uuid_is_a_thread_id(persistence: AppPersistence):
    thread_id = uuid.uuid4()
    config = await put(persistence.checkpointer, place(thread_id), state(a=[1]))
    assert config["configurable"]["thread_id"] == str(thread_id)
    assert await persistence.checkpointer.aget_tuple(place(str(thread_id))) is not None
    await persistence.checkpointer.adelete_thread(thread_id)  # type: ignore[arg-type]
    assert await persistence.checkpointer.aget_tuple(place(thread_id)) is None


@pytest.mark.parametrize(
    ("config", "checkpoint", "metadata", "field"),
    [
        (place("x" * 151), state(), {}, "thread_id"),
        (place("a\0b"), state(), {}, "thread_id"),
        (place("\ud800"), state(), {}, "thread_id"),
        (place(None), state(), {}, "thread_id"),
        (place("t", "n" * 2001), state(), {}, "checkpoint_ns"),
        (place("t"), state(**{"c" * 151: 1}), {}, "channel"),
        (place("t"), state(**{"c\0": [1]}), {}, "channel"),
        (place("t"), state(), {"x": math.nan}, "metadata.x"),
        (place("t"), state(), {"x": {"y": ["\ud800"]}}, "metadata.x.y[0]"),
        (place("t"), state(), {"x": {"y": "\0"}}, "metadata.x.y"),
        (place("t"), state(), {"x": {1: 2}}, "metadata.x"),
        (place("t"), state(), {"x": object()}, "metadata.x"),
        (place("t"), state(big=2**64), {}, "64-bit"),
        (place("t"), state(big=[2**64]), {}, "64-bit"),
    ],
)
async def test_what_one_engine_cannot_keep_is_refused_by_all(
    persistence: AppPersistence, config, checkpoint, metadata, field
):
    with pytest.raises(InvalidValueError) as refused:
        await put(persistence.checkpointer, config, checkpoint, **metadata)
    assert field in str(refused.value)
    assert [each async for each in persistence.checkpointer.alist(None)] == []


async def test_metadata_comes_back_and_is_searched(persistence: AppPersistence):
    saver = persistence.checkpointer
    deep: Any = "end"
    for _ in range(28):
        deep = {"d": deep}
    config = await put(saver, place("t"), state(a=1), note="é🦌\\", deep=deep, ratio=0.5)
    await put(saver, place("t"), state(a=2), note="other")
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.metadata == {
        "source": "loop",
        "step": 1,
        "note": "é🦌\\",
        "deep": deep,
        "ratio": 0.5,
    }
    listed = [each async for each in saver.alist(place("t"), filter={"note": "other"})]
    assert [each.checkpoint["channel_values"] for each in listed] == [{"a": 2}]


async def test_a_large_state_comes_back_whole_or_is_refused(
    persistence: AppPersistence, engine: str
):
    saver = persistence.checkpointer
    values = {f"c{i}": ["x" * 3_000_000, i] for i in range(8)}
    config = await put(saver, place("t"), state(**values))
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == values
    if engine == "mysql":
        limit = await persistence.database.fetch_value(_packet_limit())
        with pytest.raises(InvalidValueError, match="raise max_allowed_packet"):
            await put(saver, place("t"), state(c=[b"x" * limit]))
        with pytest.raises(InvalidValueError, match="raise max_allowed_packet"):
            await saver.aput_writes(config, [("c", b"x" * limit)], "task")


def _packet_limit() -> Any:
    from deerstore.persistence.mysql import _queries

    return _queries()["saver.packet_limit"]


async def test_a_listing_may_be_written_into(migrated_url: str):
    persistence = await create_persistence_from_storage_config(
        configured(migrated_url, pool_size=1, acquire_timeout=2)
    )
    saver = persistence.checkpointer
    async with persistence:
        for number in range(5):
            await put(saver, place("t"), state(n=[number]))
        seen = []
        async for each in saver.alist(place("t")):
            seen.append(each.checkpoint["channel_values"]["n"][0])
            await put(saver, place("u"), state(n=[1]))
        assert seen == [4, 3, 2, 1, 0]
        pages = []
        before = None
        while page := [each async for each in saver.alist(place("t"), before=before, limit=2)]:
            pages.append([each.checkpoint["channel_values"]["n"][0] for each in page])
            before = page[-1].config
        assert pages == [[4, 3], [2, 1], [0]]


async def test_calls_at_once_do_not_wait_for_each_other_s_lock(persistence: AppPersistence):
    saver = persistence.checkpointer

    async def turn(number: int) -> None:
        config = await put(saver, place(f"t{number % 7}"), state(n=[number]))
        await saver.aput_writes(config, [("n", number)], "task")
        found = await saver.aget_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"n": [number]}
        assert found.pending_writes == [("task", "n", number)]

    await asyncio.gather(*(turn(number) for number in range(60)))
    assert len([each async for each in saver.alist(None)]) == 60


async def test_a_cancelled_call_leaves_everything_in_order(migrated_url: str):
    persistence = await create_persistence_from_storage_config(
        configured(migrated_url, pool_size=2, acquire_timeout=5)
    )
    saver = persistence.checkpointer
    async with persistence:
        kept = await put(saver, place("kept"), state(a=["x" * 50_000]))
        for step in range(40):
            task = asyncio.ensure_future(
                put(saver, place("t"), state(**{f"c{i}": ["x" * 20_000] for i in range(5)}))
            )
            reading = asyncio.ensure_future(saver.aget_tuple(kept))
            await asyncio.sleep(step * 0.0004)
            task.cancel()
            reading.cancel()
            await asyncio.gather(task, reading, return_exceptions=True)
        await put(saver, place("t"), state(after=[1]))
        async for each in saver.alist(place("t")):
            # All of it, or nothing.
            assert len(each.checkpoint["channel_values"]) in (1, 5)
        async with persistence.transaction() as session:
            assert not session.in_transaction
        assert persistence.database.pool.in_use == 0


@pytest.mark.engines("sqlite", why="one writer at a time holds the whole file")
async def test_a_busy_file_is_waited_for_as_long_as_is_configured(migrated_url: str):
    other = sqlite3.connect(migrated_url.removeprefix("sqlite:///"), isolation_level=None)
    impatient = await create_persistence_from_storage_config(
        configured(migrated_url, busy_timeout=0.3)
    )
    patient = await create_persistence_from_storage_config(
        configured(migrated_url, busy_timeout=20)
    )
    async with impatient, patient:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(RetryableError):
            await put(impatient.checkpointer, place("t"), state(a=1))
        with pytest.raises(RetryableError):
            await impatient.store.aput(("n",), "k", {})
        assert time.monotonic() - started < 10
        # Reading goes on beside a writer.
        assert await impatient.checkpointer.aget_tuple(place("t")) is None
        waiting = asyncio.gather(
            put(patient.checkpointer, place("t"), state(a=1)),
            patient.store.aput(("n",), "k", {}),
        )
        await asyncio.sleep(0.5)
        assert not waiting.done()
        other.execute("COMMIT")
        await waiting
        assert await patient.checkpointer.aget_tuple(place("t")) is not None
    other.close()


@pytest.mark.engines("postgres", why="its checkpointer has a pool of its own")
async def test_a_checkpointer_without_a_free_connection_says_so(migrated_url: str):
    persistence = await create_persistence_from_storage_config(
        configured(migrated_url, pool_size=1, acquire_timeout=0.2)
    )
    async with persistence, persistence.checkpointer._cursor():  # type: ignore[attr-defined]
        with pytest.raises(PoolTimeoutError) as refused:
            await persistence.checkpointer.aget_tuple(place("t"))
    assert (refused.value.size, refused.value.in_use) == (1, 1)


async def test_without_setup_the_error_names_the_table(config):
    async with await create_persistence_from_storage_config(config) as persistence:
        if config.driver != "sqlite":
            from deerstore.schema import ensure_database

            await ensure_database(config)
        with pytest.raises(QueryExecutionError, match="checkpoints"):
            await persistence.checkpointer.aget_tuple(place("t"))


class Conversation(TypedDict):
    turns: Annotated[list[str], operator.add]
    count: int


async def test_a_graph_goes_on_after_a_restart(migrated_url: str):
    from langgraph.graph import END, START, StateGraph

    def answer(state: Conversation) -> dict[str, Any]:
        return {"turns": [f"answer {state.get('count', 0)}"], "count": state.get("count", 0) + 1}

    builder = StateGraph(Conversation)
    builder.add_node('say "it"', answer)
    builder.add_edge(START, 'say "it"')
    builder.add_edge('say "it"', END)
    config: Any = {"configurable": {"thread_id": "t"}}
    for turn in range(3):
        persistence = await create_persistence_from_storage_config(configured(migrated_url))
        async with persistence:
            graph = builder.compile(checkpointer=persistence.checkpointer, store=persistence.store)
            result = await graph.ainvoke({"turns": [f"question {turn}"]}, config)
            history = [each async for each in graph.aget_state_history(config)]
    assert result["turns"] == [f"{kind} {n}" for n in range(3) for kind in ("question", "answer")]
    assert result["count"] == 3
    assert len(history) == 9


async def test_an_empty_checkpoint_is_kept(persistence: AppPersistence):
    checkpoint = empty_checkpoint()
    config = await put(persistence.checkpointer, place("t"), checkpoint)
    found = await persistence.checkpointer.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {}
    assert found.parent_config is None
