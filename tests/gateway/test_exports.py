"""What the gateway exports, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import deerstore.gateway
from deerstore.errors import MissingExtraError

PROMISED = {
    "RunJournal",
    "RunManager",
    "StorageFeedbackRepository",
    "StorageFeedbackStore",
    "StorageRunEventRepository",
    "StorageRunEventStore",
    "StorageRunRepository",
    "StorageRunStore",
    "StorageThreadMetaRepository",
    "StorageThreadMetaStore",
    "StorageUserDataRepository",
    "StorageUserStore",
    "branch_thread",
    "capture_rollback_point",
    "current_user",
    "gateway_runtime",
    "reset_current_user",
    "rollback_to",
    "serialize_channel_values_for_api",
    "set_current_user",
}


def test_every_promised_name_is_there():
    assert set(deerstore.gateway.__all__) >= PROMISED
    for name in PROMISED:
        assert getattr(deerstore.gateway, name) is not None
    assert set(dir(deerstore.gateway)) >= PROMISED
    with pytest.raises(AttributeError, match="no attribute 'RunJurnal'"):
        _ = deerstore.gateway.RunJurnal  # type: ignore[attr-defined]


def loaded_by(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(out.stdout)}


@pytest.mark.parametrize(
    "statement",
    [
        "import deerstore.gateway",
        "from deerstore.gateway import current_user, set_current_user",
        "from deerstore.gateway import StorageRunStore, StorageRunEventRepository",
        "from deerstore.gateway import serialize_channel_values_for_api",
    ],
)
def test_a_name_loads_only_what_it_needs(statement):
    heavy = {"langchain_core", "langgraph", "aiosqlite", "asyncpg", "aiomysql", "psycopg"}
    assert not heavy & loaded_by(statement)


@pytest.mark.parametrize(
    ("name", "package"),
    [("RunJournal", "langchain_core"), ("rollback_to", "langgraph"), ("branch_thread", "xxhash")],
)
def test_a_missing_package_names_the_extra(monkeypatch, name, package):
    monkeypatch.delitem(deerstore.gateway.__dict__, name, raising=False)
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    for module in [m for m in sys.modules if m.startswith("deerstore.gateway.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(MissingExtraError, match=r"deerstore\[gateway\]") as missing:
        getattr(deerstore.gateway, name)
    assert missing.value.name == package
