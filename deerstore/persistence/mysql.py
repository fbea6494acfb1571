"""LangGraph on MySQL and MariaDB: its tables and serializer, over the facade's connections.

LangGraph's saver gathers a checkpoint's contents in one JSON value, which MariaDB cuts at
``group_concat_max_len`` (1 MB) and which is silently NULL above ``max_allowed_packet``; its one
lock lets one call at a time pass. Here each content is a row, and each call has a connection.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.mysql.aio import AIOMySQLSaver
from langgraph.checkpoint.serde.types import TASKS
from langgraph.store.mysql.aio import AIOMySQLStore

from deerstore.database.catalog import engine_queries
from deerstore.errors import InvalidValueError
from deerstore.persistence.calls import Calls
from deerstore.persistence.checkpointer import PortableSaver, PortableSerializer
from deerstore.persistence.mysql_tables import make_tables
from deerstore.persistence.store import PortableStore
from deerstore.queries import Query, QueryCatalog
from deerstore.schema.langgraph import Ledger
from deerstore.values import INT64_MAX

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from deerstore.database import Database
    from deerstore.database.executor import Executor

__all__ = ["MySQLCheckpointer", "MySQLLangGraph", "MySQLStore"]

T = TypeVar("T")

_STATEMENT_BYTES = 16_384
"""What a statement takes beside the content that it carries."""


def _queries() -> QueryCatalog:
    return engine_queries("langgraph", "mysql")


class _Row(NamedTuple):
    """A checkpoint as it lies in its table."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    checkpoint: Any
    metadata: Any


class _RowSaver(AIOMySQLSaver):
    """LangGraph's saver, with a statement per content instead of one for all."""

    _database: Database
    _packet_limit: int | None = None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        configurable = config["configurable"]
        place = {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": configurable.get("checkpoint_ns") or "",
        }
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id:
            query = _listing(thread=True, ns=True, one=True)
            params = {**place, "checkpoint_id": checkpoint_id, "limit": 1}
        else:
            query, params = _queries()["saver.latest"], place
        rows = [_Row(*row) for row in await self._database.fetch_tuples(query, params)]
        found = await self._complete(rows)
        return found[0] if found else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        params: dict[str, Any] = {"limit": INT64_MAX if limit is None else int(limit)}
        if config is not None:
            configurable = config["configurable"]
            params["thread_id"] = configurable["thread_id"]
            if configurable.get("checkpoint_ns") is not None:
                params["checkpoint_ns"] = configurable["checkpoint_ns"]
            if checkpoint_id := get_checkpoint_id(config):
                params["checkpoint_id"] = checkpoint_id
        if filter:
            params["filter"] = json.dumps(filter)
        if before is not None:
            params["before"] = get_checkpoint_id(before) or ""
        query = _listing(
            thread="thread_id" in params,
            ns="checkpoint_ns" in params,
            one="checkpoint_id" in params,
            paged="before" in params,
            filtered="filter" in params,
        )
        rows = [_Row(*row) for row in await self._database.fetch_tuples(query, params)]
        for each in await self._complete(rows):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        configurable = config["configurable"]
        place = {
            "thread_id": configurable["thread_id"],
            "checkpoint_ns": configurable["checkpoint_ns"],
        }
        values = checkpoint["channel_values"]
        apart = {name for name, value in values.items() if not _is_primitive(value)}
        inline: Any = {
            **checkpoint,
            "channel_values": {name: values[name] for name in values if name not in apart},
        }
        contents = [
            {**place, "channel": name, "version": str(version), **self._dump(values[name])}
            for name, version in new_versions.items()
            if name in apart
        ]
        row = {
            **place,
            "checkpoint_id": checkpoint["id"],
            "parent_checkpoint_id": configurable.get("checkpoint_id"),
            "checkpoint": json.dumps(inline),
            "metadata": json.dumps(get_serializable_checkpoint_metadata(config, metadata)),
        }
        await self._check_size("channel", contents)

        async def put(executor: Executor) -> None:
            if contents:
                await executor.execute_many(_queries()["saver.put_content"], contents)
            await executor.execute(_queries()["saver.put_checkpoint"], **row)

        await (self._database.retrying(put) if contents else put(self._database))
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        configurable = config["configurable"]
        rows = [
            {
                "thread_id": configurable["thread_id"],
                "checkpoint_ns": configurable["checkpoint_ns"],
                "checkpoint_id": configurable["checkpoint_id"],
                "task_id": task_id,
                "task_path": task_path,
                "idx": WRITES_IDX_MAP.get(channel, index),
                "channel": channel,
                **self._dump(value),
            }
            for index, (channel, value) in enumerate(writes)
        ]
        if not rows:
            return
        await self._check_size("channel", rows)
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        query = _queries()["saver.put_write"].variant(again="replace" if special else "keep")
        await self._database.execute_many(query, rows)

    async def adelete_thread(self, thread_id: str) -> None:
        from deerstore.database.catalog import deerstore_queries

        queries = deerstore_queries()

        async def delete(executor: Executor) -> None:
            await executor.execute(queries["checkpoints.delete_writes"], thread_id=thread_id)
            await executor.execute(queries["checkpoints.delete_checkpoints"], thread_id=thread_id)

        await self._database.retrying(delete)

    def _dump(self, value: Any) -> dict[str, Any]:
        kind, content = self.serde.dumps_typed(value)
        return {"type": kind, "content": bytes(content)}

    async def _check_size(self, what: str, rows: Sequence[dict[str, Any]]) -> None:
        """Refuse what the server could not take, before it cuts the connection."""
        largest = max(rows, key=lambda row: len(row["content"]), default=None)
        if largest is None or len(largest["content"]) < 400_000:
            return
        if self._packet_limit is None:
            limit = await self._database.fetch_value(_queries()["saver.packet_limit"])
            self._packet_limit = int(limit)
        # A byte travels as two hexadecimal digits.
        room = (self._packet_limit - _STATEMENT_BYTES) // 2
        if len(largest["content"]) > room:
            name = largest["channel"]
            raise InvalidValueError(
                f"the value of {what} {name!r} takes {len(largest['content'])} bytes; the server "
                f"takes at most {room} (raise max_allowed_packet, now {self._packet_limit})",
                field=f"channel_values.{name}",
            )

    # -- reading ---------------------------------------------------------------------------------

    async def _complete(self, rows: Sequence[_Row]) -> list[CheckpointTuple]:
        """The checkpoints of some rows, with their contents and pending writes."""
        places: dict[tuple[str, str], list[_Row]] = defaultdict(list)
        for row in rows:
            places[row.thread_id, row.checkpoint_ns].append(row)
        built: dict[tuple[str, str, str], CheckpointTuple] = {}
        for (thread_id, checkpoint_ns), there in places.items():
            place = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}
            contents = await self._contents(place, there)
            writes = await self._writes(place, [row.checkpoint_id for row in there])
            sends = await self._sends(place, there)
            for row in there:
                built[thread_id, checkpoint_ns, row.checkpoint_id] = self._build(
                    row, contents, writes[row.checkpoint_id], sends.get(row.parent_id or "", [])
                )
        return [built[row.thread_id, row.checkpoint_ns, row.checkpoint_id] for row in rows]

    async def _contents(
        self, place: dict[str, str], rows: Iterable[_Row]
    ) -> dict[tuple[str, str], tuple[str, bytes | None]]:
        wanted = {
            (channel, str(version))
            for row in rows
            for channel, version in (row.checkpoint.get("channel_versions") or {}).items()
        }
        if not wanted:
            return {}
        params = {**place, "versions": sorted(map(list, wanted))}
        found = await self._database.fetch_tuples(_queries()["saver.contents"], params)
        return {(channel, version): (kind, content) for channel, version, kind, content in found}

    async def _writes(
        self, place: dict[str, str], ids: Sequence[str]
    ) -> dict[str, list[tuple[str, str, Any]]]:
        params = {**place, "checkpoint_ids": list(ids)}
        found: dict[str, list[tuple[str, str, Any]]] = defaultdict(list)
        rows = await self._database.fetch_tuples(_queries()["saver.writes"], params)
        for checkpoint_id, task_id, channel, kind, content in rows:
            value = self.serde.loads_typed((kind, content))
            found[checkpoint_id].append((task_id, channel, value))
        return found

    async def _sends(
        self, place: dict[str, str], rows: Iterable[_Row]
    ) -> dict[str, list[tuple[str, bytes]]]:
        parents = {
            row.parent_id for row in rows if row.parent_id and row.checkpoint.get("v", 0) < 4
        }
        if not parents:
            return {}
        params = {**place, "checkpoint_ids": sorted(parents), "channel": TASKS}
        found: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
        for checkpoint_id, kind, content in await self._database.fetch_tuples(
            _queries()["saver.sends"], params
        ):
            found[checkpoint_id].append((kind, content))
        return found

    def _build(
        self,
        row: _Row,
        contents: dict[tuple[str, str], tuple[str, bytes | None]],
        writes: list[tuple[str, str, Any]],
        sends: list[tuple[str, bytes]],
    ) -> CheckpointTuple:
        checkpoint = dict(row.checkpoint)
        checkpoint["channel_versions"] = dict(checkpoint.get("channel_versions") or {})
        blobs = [
            (channel, *contents[channel, str(version)])
            for channel, version in checkpoint["channel_versions"].items()
            if (channel, str(version)) in contents
        ]
        if sends:
            self._migrate_pending_sends(sends, checkpoint, blobs)
        checkpoint["channel_values"] = {
            **(checkpoint.get("channel_values") or {}),
            **self._load_blobs(blobs),
        }
        place = {"thread_id": row.thread_id, "checkpoint_ns": row.checkpoint_ns}
        parent = {"configurable": {**place, "checkpoint_id": row.parent_id}}
        return CheckpointTuple(
            {"configurable": {**place, "checkpoint_id": row.checkpoint_id}},
            cast("Checkpoint", checkpoint),
            row.metadata,
            cast("RunnableConfig", parent) if row.parent_id else None,
            writes,
        )


class MySQLCheckpointer(PortableSaver, _RowSaver):
    """The checkpointer on MySQL: an ``AIOMySQLSaver`` over the facade's connections."""

    keeps_apart = True

    def __init__(self, database: Database) -> None:
        self._database = database
        # The facade lends a connection to each call.
        super().__init__(cast("Any", None), serde=PortableSerializer())
        self._calls = Calls()

    async def setup(self) -> None:
        """LangGraph's tables. ``persistence.setup()`` does it under the lock of all setups."""
        await make_tables(self._database.config, [_SAVER_LEDGER])


class MySQLStore(PortableStore, AIOMySQLStore):
    """The Store on MySQL: an ``AIOMySQLStore`` over the facade."""

    def __init__(self, database: Database) -> None:
        self._database = database
        super().__init__(cast("Any", None))
        self._calls = Calls("store")

    async def setup(self) -> None:
        """LangGraph's table. ``persistence.setup()`` does it under the lock of all setups."""
        await make_tables(self._database.config, [_STORE_LEDGER])


class MySQLLangGraph:
    """The checkpointer and the Store of a bundle on MySQL or MariaDB."""

    def __init__(self, database: Database) -> None:
        self.checkpointer = MySQLCheckpointer(database)
        self.store = MySQLStore(database)
        self._config = database.config

    async def setup(self) -> None:
        """LangGraph's tables."""
        await make_tables(self._config, [_SAVER_LEDGER, _STORE_LEDGER])

    async def aclose(self, grace: float) -> None:
        """Nothing: the connections are the facade's."""


_SAVER_LEDGER = Ledger("checkpoint", AIOMySQLSaver.MIGRATIONS)
_STORE_LEDGER = Ledger("store", AIOMySQLStore.MIGRATIONS)


def _listing(
    *,
    thread: bool = False,
    ns: bool = False,
    one: bool = False,
    paged: bool = False,
    filtered: bool = False,
) -> Query:
    return _queries()["saver.list"].variant(
        thread=thread, ns=ns, one=one, paged=paged, filtered=filtered
    )


def _is_primitive(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
