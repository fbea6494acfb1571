"""What deerstore adds to LangGraph's savers, the same on every engine."""

# ruff: noqa: D102 - LangGraph's base classes say what each method does
from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import get_checkpoint_metadata
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from deerstore.errors import InvalidValueError
from deerstore.persistence.calls import Calls
from deerstore.persistence.portable import (
    PATH_LENGTH,
    check_json,
    check_name,
    is_inline,
    thread_id_text,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    _Saver = BaseCheckpointSaver[str]
else:
    _Saver = object

__all__ = ["Apart", "PortableSaver", "PortableSerializer"]

T = TypeVar("T")


class Apart:
    """A primitive on its way to be kept apart from its checkpoint.

    The savers of PostgreSQL and MySQL put what is not a primitive into a table of contents; this
    wrapper makes a primitive one, and :class:`PortableSerializer` takes it off again.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class PortableSerializer(JsonPlusSerializer):
    """LangGraph's own serializer, which sees through :class:`Apart`.

    What it cannot write is an :class:`~deerstore.errors.InvalidValueError`.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        value = obj.value if type(obj) is Apart else obj
        try:
            return super().dumps_typed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValueError(
                f"a value of type {type(value).__name__} in the state cannot be stored: {error}"
            ) from error


class PortableSaver(_Saver):
    """Stands before an engine's saver: checks what is to be kept, and words its failures."""

    serde: SerializerProtocol
    keeps_apart = False
    """Whether contents that are not primitive lie in a table of their own."""

    _calls: Calls
    """Made once per bundle: LangGraph works on shallow copies of the saver."""

    async def _attempt(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of a call. An engine may raise deerstore's errors for its driver's here."""
        return await call()

    async def _call(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._calls.begin()
        try:
            return await self._attempt(call)
        finally:
            self._calls.end()

    async def finish(self, grace: float) -> None:
        """Take no more calls, and let those in flight end for ``grace`` seconds."""
        await self._calls.finish(grace)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._call(partial(super().aget_tuple, _place(config)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        # All of them first: no connection and no lock is held while the caller works on one.
        found = await self._call(partial(self._collect, config, filter, before, limit))
        for each in found:
            yield each

    async def _collect(
        self,
        config: RunnableConfig | None,
        filter_: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> list[CheckpointTuple]:
        place = _place(config) if config is not None else None
        pages = super().alist(place, filter=filter_, before=before, limit=limit)
        return [each async for each in pages]

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = _place(config)
        _check_checkpoint(checkpoint)
        # LangGraph's older releases kept the writes here; two of three savers drop them.
        kept: Any = {key: value for key, value in metadata.items() if key != "writes"}
        check_json("metadata", get_checkpoint_metadata(place, kept))
        if self.keeps_apart:
            checkpoint = _set_apart(checkpoint, new_versions)
        return await self._call(partial(super().aput, place, checkpoint, kept, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        place = _place(config)
        check_name("task_id", task_id)
        check_name("task_path", task_path, PATH_LENGTH)
        for channel, _ in writes:
            check_name("the name of a channel", channel)
        await self._call(partial(super().aput_writes, place, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._call(partial(super().adelete_thread, thread_id_text(thread_id)))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._call(
            partial(super().aget_delta_channel_history, config=_place(config), channels=channels)
        )


def _place(config: RunnableConfig) -> RunnableConfig:
    """The same configuration, with ids that every engine finds again."""
    configurable = dict(config.get("configurable") or {})
    configurable["thread_id"] = thread_id_text(configurable.get("thread_id"))
    if configurable.get("checkpoint_ns") is not None:
        check_name("checkpoint_ns", configurable["checkpoint_ns"], PATH_LENGTH)
    if configurable.get("checkpoint_id") is not None:
        configurable["checkpoint_id"] = check_name("checkpoint_id", configurable["checkpoint_id"])
    return {**config, "configurable": configurable}


def _check_checkpoint(checkpoint: Checkpoint) -> None:
    check_name("checkpoint.id", checkpoint["id"])
    for channel in checkpoint["channel_values"]:
        check_name("the name of a channel", channel)
    _check_versions(checkpoint.get("channel_versions") or {})
    for node, seen in (checkpoint.get("versions_seen") or {}).items():
        check_name("the name of a node", node, PATH_LENGTH)
        _check_versions(seen)


def _check_versions(versions: Mapping[str, Any]) -> None:
    for channel, version in versions.items():
        check_name("the name of a channel", channel)
        if isinstance(version, str):
            check_name("the version of a channel", version)


def _set_apart(checkpoint: Checkpoint, new_versions: ChannelVersions) -> Checkpoint:
    # A content is written with a new version only; one from before is where it was.
    values = {
        channel: Apart(value)
        if channel in new_versions and _is_primitive(value) and not is_inline(value)
        else value
        for channel, value in checkpoint["channel_values"].items()
    }
    changed: Any = {**checkpoint, "channel_values": values}
    return changed  # type: ignore[no-any-return]


def _is_primitive(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
