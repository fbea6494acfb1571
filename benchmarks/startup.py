"""What importing deerstore and opening a bundle cost, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

__all__ = ["figures"]

_IMPORT = """
import time
import pydantic, pydantic.fields, typing_extensions
class _Warm(pydantic.BaseModel):
    field: int = 0
start = time.perf_counter()
import deerstore
deerstore.StorageConfig
print((time.perf_counter() - start) * 1e3)
"""
_NAME_ONLY = """
import time
import pydantic
start = time.perf_counter()
import deerstore
print((time.perf_counter() - start) * 1e3)
"""
_OPEN = """
import asyncio, resource, sys, time
import pydantic, aiosqlite, yoyo, langgraph.checkpoint.sqlite.aio, langgraph.store.sqlite.aio
import deerstore
async def main():
    start = time.perf_counter()
    async with deerstore.open("sqlite:///" + sys.argv[1]):
        print((time.perf_counter() - start) * 1e3)
        with open("/proc/self/statm") as statm:
            print(int(statm.read().split()[1]) * resource.getpagesize() / 2**20)
asyncio.run(main())
"""

_CACHE = tempfile.TemporaryDirectory(prefix="deerstore-bytecode-")


def figures(times: int = 7) -> dict[str, Any]:
    """Milliseconds and MiB, medians of fresh interpreters."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "start.db")
        for code in (_OPEN, _IMPORT):
            # An installation has its byte code compiled.
            _run(code, os.path.join(folder, "other.db"))
        first = _run(_OPEN, path)
        again = [_run(_OPEN, path) for _ in range(times)]
    return {
        "import deerstore, beyond pydantic": _ms(_run(_NAME_ONLY)[0] for _ in range(times)),
        "… and StorageConfig": _ms(_run(_IMPORT)[0] for _ in range(times)),
        "open a new SQLite bundle, tables included": f"{first[0]:.0f} ms",
        "open a SQLite bundle again, beyond the drivers' imports": _ms(each[0] for each in again),
        "memory of the process with an idle bundle": f"{median(e[1] for e in again):.0f} MiB",
    }


def _ms(values: Any) -> str:
    return f"{median(values):.0f} ms"


def _run(code: str, *arguments: str) -> list[float]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": _CACHE.name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return [float(line) for line in done.stdout.split()]
