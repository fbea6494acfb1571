"""The bundle's parts that the gateway works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from deerstore.persistence import AppPersistence


@pytest.fixture
def checkpointer(persistence: AppPersistence) -> BaseCheckpointSaver[str]:
    """The engine's saver."""
    return persistence.checkpointer
