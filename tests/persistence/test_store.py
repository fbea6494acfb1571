"""The Store: isolated namespaces, one meaning of a filter, one form of a time."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from deerstore.errors import DeerstoreError, InvalidValueError
from deerstore.persistence import create_persistence_from_storage_config
from tests.fixtures.fix_databases import configured

if TYPE_CHECKING:
    from deerstore.persistence import AppPersistence


async def found(store: Any, *labels: str, **options: Any) -> list[tuple[str, ...]]:
    return [item.namespace for item in await store.asearch(labels, limit=100, **options)]


LABELS = ["a", "ab", "A", "a ", "a%", "a_", "axb", "a*", "a?", "[a]", "a/", "a-", "ä", "a\\", "🦌"]


async def test_a_search_stays_inside_its_namespace(persistence: AppPersistence):
    store = persistence.store
    for label in LABELS:
        await store.aput((label,), "k", {"at": label})
        await store.aput((label, "deep", label), "k", {"at": label})
    for label in LABELS:
        assert sorted(await found(store, label)) == [(label,), (label, "deep", label)]
        assert await found(store, label, "deep") == [(label, "deep", label)]
        assert await found(store, label, "dee") == []
        item = await store.aget((label,), "k")
        assert item is not None
        assert item.value == {"at": label}
    assert len(await found(store)) == 2 * len(LABELS)
    await store.adelete(("a",), "k")
    assert await found(store, "a") == [("a", "deep", "a")]
    assert ("ab",) in await found(store, "ab")


async def test_keys_are_compared_code_point_by_code_point(persistence: AppPersistence):
    keys = ["k", "K", "k ", "é", "e", "🦌", "k%", ""]
    for key in keys:
        await persistence.store.aput(("n",), key, {"key": key})
    for key in keys:
        item = await persistence.store.aget(("n",), key)
        assert item is not None
        assert item.value == {"key": key}
    assert await persistence.store.aget(("n",), "k  ") is None


async def test_namespaces_are_listed_by_their_labels(persistence: AppPersistence):
    store = persistence.store
    for namespace in [("u", "1", "x"), ("u", "2", "x"), ("u", "2", "y"), ("ux",), ("v", "1", "x")]:
        await store.aput(namespace, "k", {})
    assert await store.alist_namespaces(prefix=("u",)) == [
        ("u", "1", "x"),
        ("u", "2", "x"),
        ("u", "2", "y"),
    ]
    assert await store.alist_namespaces(prefix=("u", "*", "x")) == [
        ("u", "1", "x"),
        ("u", "2", "x"),
    ]
    assert await store.alist_namespaces(suffix=("1", "x")) == [("u", "1", "x"), ("v", "1", "x")]
    assert await store.alist_namespaces(max_depth=1) == [("u",), ("ux",), ("v",)]
    assert await store.alist_namespaces(prefix=("u",), max_depth=2, limit=1, offset=1) == [
        ("u", "2")
    ]
    assert await store.alist_namespaces(limit=0) == []


async def test_a_value_comes_back_and_its_times_are_aware(persistence: AppPersistence):
    store = persistence.store
    value = {
        "text": "é🦌'\"\\%s",
        "number": 1.5,
        "whole": 2**53 + 1,
        "none": None,
        "list": [1, [2, {"x": []}]],
        "tuple": (1, 2),
        "true": True,
    }
    before = dt.datetime.now(dt.UTC)
    await store.aput(("n",), "k", value)
    first = await store.aget(("n",), "k")
    assert first is not None
    assert first.value == {**value, "tuple": [1, 2]}
    assert first.created_at == first.updated_at
    assert first.created_at.utcoffset() == dt.timedelta(0)
    assert before <= first.created_at <= dt.datetime.now(dt.UTC)
    await asyncio.sleep(0.01)
    await store.aput(("n",), "k", {"new": 1})
    second = await store.aget(("n",), "k")
    assert second is not None
    assert second.value == {"new": 1}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    [listed] = await store.asearch(("n",))
    assert (listed.created_at, listed.updated_at) == (second.created_at, second.updated_at)


async def test_what_was_changed_last_comes_first_page_by_page(persistence: AppPersistence):
    store = persistence.store
    for number in range(7):
        await store.aput(("n",), f"k{number}", {"n": number})
    await store.aput(("n",), "k2", {"n": 2})
    order = [2, 6, 5, 4, 3, 1, 0]
    for options in ({}, {"filter": {"n": {"$gte": 0}}}):
        pages = [
            [item.value["n"] for item in await store.asearch(("n",), limit=3, offset=at, **options)]
            for at in (0, 3, 6, 9)
        ]
        assert pages == [order[:3], order[3:6], order[6:], []]
    assert await store.asearch(("n",), limit=0) == []


ITEMS: dict[str, dict[str, Any]] = {
    "one": {"v": 1},
    "float_one": {"v": 1.0},
    "true": {"v": True},
    "text_one": {"v": "1"},
    "null": {"v": None},
    "missing": {},
    "two": {"v": 2, "w": {"x": "y", "z": 3}},
    "list": {"v": [1, "a"]},
    "text": {"v": "b"},
    'odd "key"': {"a.b": 1, 'q"': 2, "$v": 3},
}


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"v": 1}, {"one", "float_one"}),
        ({"v": True}, {"true"}),
        ({"v": "1"}, {"text_one"}),
        ({"v": None}, {"null", "missing", 'odd "key"'}),
        ({"v": {"$eq": 2}}, {"two"}),
        ({"v": {"$ne": 1}}, set(ITEMS) - {"one", "float_one"}),
        ({"v": {"$gt": 1}}, {"two"}),
        ({"v": {"$gte": 1, "$lt": 2}}, {"one", "float_one"}),
        ({"v": {"$gt": "a"}}, {"text"}),
        ({"v": {"$lte": "b"}}, {"text_one", "text"}),
        ({"w": {"x": "y"}}, {"two"}),
        ({"w": {"z": {"$gt": 2}}}, {"two"}),
        ({"v": [1, "a"]}, {"list"}),
        ({"v": 2, "w": {"x": "n"}}, set()),
        ({"a.b": 1, 'q"': 2}, {'odd "key"'}),
    ],
)
async def test_a_filter_means_the_same_everywhere(persistence: AppPersistence, wanted, keys):
    await asyncio.gather(
        *(persistence.store.aput(("n",), key, value) for key, value in ITEMS.items())
    )
    items = await persistence.store.asearch(("n",), filter=wanted, limit=100)
    assert {item.key for item in items} == keys


async def test_an_unknown_operator_is_refused(persistence: AppPersistence):
    await persistence.store.aput(("n",), "k", {"v": 1})
    with pytest.raises(InvalidValueError, match=r"unknown operator '\$near'"):
        await persistence.store.asearch(("n",), filter={"v": {"$near": 1}})


@pytest.mark.parametrize(
    ("namespace", "key", "value", "field"),
    [
        (("n",), "k" * 151, {}, "key"),
        (("n",), "k\0", {}, "key"),
        (("n" * 501,), "k", {}, "namespace"),
        (("n" * 250, "m" * 250), "k", {}, "namespace"),
        (("\ud800",), "k", {}, "namespace"),
        (("n",), "k", {"v": math.nan}, "value.v"),
        (("n",), "k", {"v": [math.inf]}, "value.v[0]"),
        (("n",), "k", {"v": "\0"}, "value.v"),
        (("n",), "k", {"v": "\ud800"}, "value.v"),
        (("n",), "k", {"v\0": 1}, "value"),
        (("n",), "k", {1: 1}, "value"),
        (("n",), "k", {"v": 2**63}, "value.v"),
        (("n",), "k", {"v": dt.datetime.now(dt.UTC)}, "value.v"),
        (("n",), "k", {"v": b"x"}, "value.v"),
        (("n",), "k", ["not", "a", "mapping"], "value"),
    ],
)
async def test_what_one_engine_cannot_keep_is_refused_by_all(
    persistence: AppPersistence, namespace, key, value, field
):
    with pytest.raises(InvalidValueError, match=field.replace("[", r"\[")):
        await persistence.store.aput(namespace, key, value)
    assert await persistence.store.asearch(()) == []


async def test_a_value_may_be_nested_31_levels_deep(persistence: AppPersistence):
    def nested(levels: int) -> Any:
        value: Any = "end"
        for _ in range(levels):
            value = {"d": value}
        return value

    await persistence.store.aput(("n",), "k", nested(31))
    item = await persistence.store.aget(("n",), "k")
    assert item is not None
    assert item.value == nested(31)
    with pytest.raises(InvalidValueError, match="nested more than 31 levels"):
        await persistence.store.aput(("n",), "k", nested(32))


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("a", "")])
async def test_a_namespace_that_could_be_another_is_refused(persistence, namespace):
    with pytest.raises(ValueError, match=r"[Nn]amespace"):
        await persistence.store.aput(namespace, "k", {})
    with pytest.raises(ValueError, match=r"label"):
        await persistence.store.abatch([PutOp(namespace or ("a.b",), "k", {})])


async def test_a_ttl_is_refused(persistence: AppPersistence):
    with pytest.raises(InvalidValueError, match="ttl is not supported"):
        await persistence.store.aput(("n",), "k", {}, ttl=5)


async def test_one_bad_call_does_not_spoil_the_calls_beside_it(persistence: AppPersistence):
    store = persistence.store
    results = await asyncio.gather(
        store.aput(("n",), "good", {"v": 1}),
        store.aput(("n",), "bad", {"v": math.nan}),
        store.aget(("n",), "none"),
        store.asearch(("n",), limit=-1),
        return_exceptions=True,
    )
    assert [type(each) for each in results] == [
        type(None),
        InvalidValueError,
        type(None),
        InvalidValueError,
    ]
    assert await store.aget(("n",), "good") is not None


async def test_a_batch_reads_before_it_writes_and_is_all_or_nothing(persistence: AppPersistence):
    store = persistence.store
    await store.aput(("n",), "k", {"v": 1})
    results = await store.abatch(
        [
            PutOp(("n",), "k", {"v": 2}),
            GetOp(("n",), "k"),
            PutOp(("n",), "m", {"v": 3}),
            SearchOp(("n",)),
            PutOp(("n",), "m", None),
        ]
    )
    assert results[1].value == {"v": 1}
    assert [item.key for item in results[3]] == ["k"]
    assert (await store.aget(("n",), "k")).value == {"v": 2}
    assert await store.aget(("n",), "m") is None


async def test_two_processes_write_the_same_items(migrated_url: str):
    bundles = [
        await create_persistence_from_storage_config(configured(migrated_url)) for _ in range(2)
    ]
    try:

        async def write(bundle: AppPersistence, turn: int) -> None:
            keys = [f"k{number}" for number in range(10)]
            if turn % 2:
                keys.reverse()
            await asyncio.gather(*(bundle.store.aput(("n",), key, {"t": turn}) for key in keys))

        await asyncio.gather(*(write(bundles[turn % 2], turn) for turn in range(20)))
        assert len(await bundles[0].store.asearch(("n",), limit=100)) == 10
    finally:
        for bundle in bundles:
            await bundle.aclose()


async def test_what_langgraphs_own_store_wrote_is_read(
    persistence: AppPersistence, migrated_config, engine: str
):
    async with plain_store(migrated_config, engine) as plain:
        await plain.aput(("n", "x"), "k", {"v": "é", "n": [1]})
        assert (await persistence.store.aget(("n", "x"), "k")).value == {"v": "é", "n": [1]}
        [item] = await persistence.store.asearch(("n",), filter={"v": "é"})
        assert item.created_at.tzinfo is not None
        await persistence.store.aput(("n", "x"), "ours", {"v": 1})
        assert (await plain.aget(("n", "x"), "ours")).value == {"v": 1}


def plain_store(config: Any, engine: str) -> Any:
    """LangGraph's own Store on the same database."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened() -> Any:
        if engine == "sqlite":
            from langgraph.store.sqlite.aio import AsyncSqliteStore

            async with AsyncSqliteStore.from_conn_string(config.targets.sqlite_path()) as store:
                yield store
                store._task.cancel()
        elif engine == "postgres":
            from langgraph.store.postgres.aio import AsyncPostgresStore

            conninfo = config.targets.psycopg_conninfo()
            async with AsyncPostgresStore.from_conn_string(conninfo) as store:
                yield store
                store._task.cancel()
        else:
            import aiomysql
            from langgraph.store.mysql.aio import AIOMySQLStore

            connection = await aiomysql.connect(**config.targets.aiomysql_kwargs(), autocommit=True)
            store = AIOMySQLStore(connection)
            yield store
            store._task.cancel()
            await connection.ensure_closed()

    return opened()


async def test_a_closed_store_refuses_work(migrated_config):
    persistence = await create_persistence_from_storage_config(migrated_config)
    pending = [
        asyncio.ensure_future(persistence.store.aput(("n",), f"k{n}", {"n": n})) for n in range(5)
    ]
    await asyncio.sleep(0)
    await persistence.aclose()
    assert await asyncio.gather(*pending, return_exceptions=True) == [None] * 5
    with pytest.raises(DeerstoreError, match="the store is closed"):
        await persistence.store.aget(("n",), "k1")
