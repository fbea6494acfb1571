"""LangGraph's own conformance suite, on the checkpointer of each engine.

The table in docs/engines.md lists what these tests say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.conformance import validate
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from deerstore.persistence import AppPersistence

OFFERED = {"put", "put_writes", "get_tuple", "list", "delete_thread"}


def offered(engine: str) -> set[str]:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    # LangGraph's saver for PostgreSQL prunes since 3.2.
    prunes = AsyncPostgresSaver.aprune is not BaseCheckpointSaver.aprune
    return OFFERED | ({"prune"} if engine == "postgres" and prunes else set())


@pytest.mark.filterwarnings("default")  # the suite serializes classes of its own
async def test_every_capability_that_the_saver_offers_conforms(
    persistence: AppPersistence, engine: str
):
    async def factory() -> AsyncGenerator[Any, None]:
        yield persistence.checkpointer

    report = await validate(RegisteredCheckpointer(name=engine, factory=factory))
    results = report.results.items()
    assert {name for name, result in results if result.detected} == offered(engine)
    failures = {name: result.failures for name, result in results if result.failures}
    assert failures == {}
    assert all(result.passed for _, result in results if result.detected)
