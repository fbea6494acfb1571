"""LangGraph's Store over deerstore's own queries: one behaviour on three engines.

The Stores that LangGraph ships differ in what they find: one matches ``("ab",)`` for ``("a",)``,
each compares filters in its database's own way, and times have a zone on one engine only. Here
their tables and classes stay, and what an operation does is decided once.
"""

# ruff: noqa: D102 - LangGraph's base classes say what each method does
from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from deerstore.database.catalog import deerstore_queries
from deerstore.errors import InvalidValueError
from deerstore.json_text import encode_object
from deerstore.persistence.calls import Calls
from deerstore.persistence.matching import matches_filter, matches_namespace
from deerstore.persistence.portable import KEY_LENGTH, NAMESPACE_LENGTH, check_json, check_name
from deerstore.values import page_bound, utcnow

if TYPE_CHECKING:
    from langgraph.store.base.batch import AsyncBatchedBaseStore

    from deerstore.database import Database
    from deerstore.database.executor import Executor

    _Store = AsyncBatchedBaseStore
else:
    _Store = object

__all__ = ["PortableStore", "below"]


class PortableStore(_Store):
    """Stands before an engine's Store and answers its operations from the database facade.

    Operations of one batch see each other as LangGraph defines it: first everything is read, then
    everything is written, all or nothing. There is no semantic search (``query`` and ``index`` are
    not looked at) and no expiry (a ``ttl`` is refused).
    """

    _database: Database
    _calls: Calls

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        for op in given:
            _check(op)
        self._calls.begin()
        try:
            return await self._answer(given)
        finally:
            self._calls.end()

    # LangGraph's Stores gather the operations of all callers of a moment in a task of their own.
    # There a cancelled caller's statement runs on, and what fails for one fails for all.

    async def aget(
        self,
        namespace: tuple[str, ...],
        key: str,
        *,
        refresh_ttl: bool | None = None,  # noqa: ARG002 - items do not expire
    ) -> Item | None:
        [found] = await self.abatch([GetOp(namespace, key)])
        return cast("Item | None", found)

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,  # noqa: ARG002 - items do not expire
    ) -> list[SearchItem]:
        [found] = await self.abatch([SearchOp(namespace_prefix, filter, limit, offset, query)])
        return cast("list[SearchItem]", found)

    async def aput(
        self, namespace: tuple[str, ...], key: str, value: Any, index: Any = None, **options: Any
    ) -> None:
        ttl = options.get("ttl")
        op = PutOp(namespace, key, value, index, ttl if isinstance(ttl, int | float) else None)
        _check(op)
        if not namespace or namespace[0] == "langgraph":
            # LangGraph's own rule, for items that are put one by one.
            raise InvalidNamespaceError(
                "the namespace of an item must not be empty, nor begin with 'langgraph'"
            )
        await self.abatch([op])

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        await self.abatch([PutOp(namespace, key, None)])

    async def alist_namespaces(
        self,
        *,
        prefix: tuple[str, ...] | None = None,
        suffix: tuple[str, ...] | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        conditions = []
        if prefix:
            conditions.append(MatchCondition("prefix", prefix))
        if suffix:
            conditions.append(MatchCondition("suffix", suffix))
        op = ListNamespacesOp(tuple(conditions), max_depth, limit, offset)
        [found] = await self.abatch([op])
        return cast("list[tuple[str, ...]]", found)

    async def _answer(self, given: Sequence[Op]) -> list[Result]:
        reads = [(index, op) for index, op in enumerate(given) if not isinstance(op, PutOp)]
        # The last of several writes to one key holds.
        writes = {(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}
        results: list[Result] = [None] * len(given)
        if len(writes) > 1:
            await self._database.retrying(
                lambda executor: self._perform(executor, reads, list(writes.values()), results)
            )
        else:
            await self._perform(self._database, reads, list(writes.values()), results)
        return results

    async def _perform(
        self,
        executor: Executor,
        reads: Sequence[tuple[int, Op]],
        writes: Sequence[PutOp],
        results: list[Result],
    ) -> None:
        for index, op in reads:
            results[index] = await _read(executor, op)
        # In one order everywhere, so that two batches never wait for each other in a circle.
        for op in sorted(writes, key=lambda op: (op.namespace, op.key)):
            await _write(executor, op)

    def _ensure_task(self) -> None:
        """There is no task: each call is its caller's."""

    async def finish(self, grace: float) -> None:
        """Take no more calls, and let those in flight end for ``grace`` seconds."""
        await self._calls.finish(grace)


def below(namespace: Sequence[str]) -> dict[str, str]:
    """The parameters that bound what lies in a namespace or below it."""
    text = ".".join(namespace)
    # "/" is the character after the dot.
    return {"namespace": text, "first_below": f"{text}.", "first_beyond": f"{text}/"}


def _check(op: Op) -> None:
    if isinstance(op, GetOp | PutOp):
        _check_namespace(op.namespace)
        check_name("key", op.key, KEY_LENGTH)
        if isinstance(op, PutOp) and op.value is not None:
            check_json("value", op.value)
            if getattr(op, "ttl", None) is not None:
                raise InvalidValueError("ttl is not supported: items do not expire", field="ttl")
    elif isinstance(op, SearchOp):
        _check_namespace(op.namespace_prefix)
        page_bound("limit", op.limit)
        page_bound("offset", op.offset)
    elif isinstance(op, ListNamespacesOp):
        page_bound("limit", op.limit)
        page_bound("offset", op.offset)
        for condition in op.match_conditions or ():
            _check_namespace(tuple(condition.path))
    else:
        raise InvalidValueError(f"{type(op).__name__} is not an operation of the Store")


def _check_namespace(namespace: Sequence[str]) -> None:
    for label in namespace:
        check_name("a label of the namespace", label, NAMESPACE_LENGTH)
        if not label or "." in label:
            raise InvalidNamespaceError(
                "a label of the namespace must not be empty and must not contain a dot"
            )
    length = sum(map(len, namespace)) + max(0, len(namespace) - 1)
    if length > NAMESPACE_LENGTH:
        raise InvalidValueError(
            f"namespace is {length} characters long with its dots; "
            f"at most {NAMESPACE_LENGTH} are allowed",
            field="namespace",
        )


async def _read(executor: Executor, op: Op) -> Result:
    if isinstance(op, GetOp):
        return await _get(executor, op)
    if isinstance(op, SearchOp):
        return await _search(executor, op)
    assert isinstance(op, ListNamespacesOp)
    return await _list_namespaces(executor, op)


async def _get(executor: Executor, op: GetOp) -> Item | None:
    query = deerstore_queries()["store.get_items"]
    rows = await executor.fetch_tuples(
        query, {"namespace": ".".join(op.namespace), "keys": [op.key]}
    )
    for key, value, created_at, updated_at in rows:
        return Item(
            value=value,
            key=key,
            namespace=op.namespace,
            created_at=created_at,
            updated_at=updated_at,
        )
    return None


async def _search(executor: Executor, op: SearchOp) -> list[SearchItem]:
    queries = deerstore_queries()
    scope = "under" if op.namespace_prefix else "all"
    bounds: dict[str, Any] = below(op.namespace_prefix) if op.namespace_prefix else {}
    if not op.filter:
        query = queries["store.search_items"].variant(scope=scope)
        params = {**bounds, "limit": op.limit, "offset": op.offset}
        return [_found(*row) for row in await executor.fetch_tuples(query, params)]
    found: list[SearchItem] = []
    skipped = 0
    if op.limit == 0:
        return found
    query = queries["store.scan_items"].variant(scope=scope)
    async with aclosing(executor.stream(query, **bounds)) as rows:
        async for row in rows:
            if not matches_filter(row[2], op.filter):
                continue
            if skipped < op.offset:
                skipped += 1
                continue
            found.append(_found(row[0], row[1], row[2], row[3], row[4]))
            if len(found) == op.limit:
                break
    return found


def _found(prefix: str, key: str, value: Any, created_at: Any, updated_at: Any) -> SearchItem:
    return SearchItem(
        namespace=tuple(prefix.split(".")),
        key=key,
        value=value,
        created_at=created_at,
        updated_at=updated_at,
    )


async def _list_namespaces(executor: Executor, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = [condition for condition in op.match_conditions or () if condition.path]
    literal: list[str] = []
    for condition in conditions:
        if condition.match_type == "prefix" and not literal:
            for label in condition.path:
                if label == "*":
                    break
                literal.append(label)
    query = deerstore_queries()["store.list_namespaces"]
    query = query.variant(scope="under" if literal else "all")
    rows = await executor.fetch_tuples(query, below(literal) if literal else {})
    namespaces = [tuple(prefix.split(".")) for (prefix,) in rows]
    for condition in conditions:
        namespaces = [each for each in namespaces if matches_namespace(condition, each)]
    if op.max_depth is not None:
        namespaces = [each[: op.max_depth] for each in namespaces]
    return sorted(set(namespaces))[op.offset : op.offset + op.limit]


async def _write(executor: Executor, op: PutOp) -> None:
    queries = deerstore_queries()
    place = {"namespace": ".".join(op.namespace), "item_key": op.key}
    if op.value is None:
        await executor.execute(queries["store.delete_item"], **place)
        return
    text = encode_object("value", _plain(op.value))
    await executor.execute(queries["store.put_item"], **place, value=text, now=utcnow())


def _plain(value: Any) -> Any:
    """Tuples as lists and mappings as dicts, which is what comes back."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if not hasattr(value, "keys") else {key: _plain(value[key]) for key in value}
