"""What `import deerstore` gives, and what it costs."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

import pytest

import deerstore
import deerstore.config
import deerstore.errors

HEAVY = (
    "aiomysql",
    "aiosqlite",
    "asyncmy",
    "asyncpg",
    "langchain_core",
    "langgraph",
    "psycopg",
    "pymysql",
    "sqlite3",
    "yaml",
    "yoyo",
)


def test_the_exported_names_are_these_and_all_of_them_exist():
    assert set(deerstore.__all__) == {
        "StorageConfig",
        "__version__",
        "load_queries",
        "open",
        *deerstore.errors.__all__,
    }
    for name in deerstore.__all__:
        assert getattr(deerstore, name) is not None
    assert set(deerstore.__all__) <= set(dir(deerstore))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = deerstore.opne  # type: ignore[attr-defined]


def test_the_configuration_module_exports_these_names():
    assert {"StorageConfig", "DatabaseConfig", "AppConfig", "load_config"} <= set(
        deerstore.config.__all__
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import deerstore",
        "import deerstore.config",
        "from deerstore import StorageConfig, open, load_queries",
        "import deerstore.persistence",
        "import deerstore.repositories",
    ],
)
def test_importing_loads_no_driver_and_no_langgraph(statement):
    loaded = _python(
        f"import sys, json; {statement}; print(json.dumps(sorted(m for m in sys.modules)))"
    )
    assert {name.partition(".")[0] for name in json.loads(loaded)}.isdisjoint(HEAVY)


def test_importing_costs_less_than_60_ms_beyond_pydantic():
    measured = [
        float(
            _python(
                "import time, pydantic; from pydantic import BaseModel, Field\n"
                "start = time.perf_counter()\n"
                "import deerstore\n"
                "print(time.perf_counter() - start)"
            )
        )
        for _ in range(5)
    ]
    assert statistics.median(measured) < 0.060


def _python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
