"""A process that sets databases up and dies when it is told to: `python -m tests.schema.victim`.

Reads one JSON object per line and answers with one. Each job runs in a fork, so that the imports
are paid once:

* `{"url": …, "kill_at": n}` kills itself with SIGKILL before its n-th writing statement; with
  `"outside": true` those inside a transaction, which all leave the same behind, do not count
* `{"url": …, "hold": seconds}` keeps the setup lock for a while, as a slow migration would
* `{"url": …, "kill_after": seconds}` is killed from outside, wherever it is then
* `{"url": …}` just runs

With `"bundle": true` it is the whole bundle's setup, LangGraph's tables included.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deerstore.config import StorageConfig
    from deerstore.schema import SetupReport

_READ = re.compile(r"\s*(/\*.*?\*/\s*)?SELECT\b", re.DOTALL)


def main() -> None:
    # Loaded before the forks.
    import deerstore.persistence.mysql
    import deerstore.persistence.postgres
    import deerstore.persistence.sqlite  # noqa: F401
    from deerstore.schema.engines import base

    for engine in ("sqlite", "postgres", "mysql"):
        base.schema_queries(engine)
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(job, writing)
        os.close(writing)
        if "kill_after" in job:
            time.sleep(job["kill_after"])
            os.kill(pid, signal.SIGKILL)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "code": status, "said": said}), flush=True)


def _child(job: dict[str, Any], writing: int) -> None:
    from deerstore.schema import setup_schema
    from deerstore.schema.engines.base import SchemaEngine
    from tests.fixtures.fix_databases import configured

    config = configured(job["url"])
    code = 0
    with os.fdopen(writing, "w") as out:
        if "kill_at" in job:
            run, count = SchemaEngine.run, 0

            def mortal(self: SchemaEngine, sql: str, args: Any = None) -> Any:
                nonlocal count
                inside = self._in_transaction and job.get("outside") and sql != "COMMIT"
                if not inside and not _READ.match(sql):
                    count += 1
                    if count == job["kill_at"]:
                        out.write(sql)
                        out.flush()
                        os.kill(os.getpid(), signal.SIGKILL)
                return run(self, sql, args)

            SchemaEngine.run = mortal  # type: ignore[method-assign]

        async def hold() -> None:
            out.write("held\n")
            out.flush()
            await asyncio.sleep(job.get("hold", 0))

        try:
            work = (
                _bundle(config) if job.get("bundle") else setup_schema(config, langgraph_setup=hold)
            )
            report = asyncio.run(work)
            out.write(json.dumps(report.applied))
        except BaseException:  # noqa: BLE001 - the test wants to see it
            out.write(traceback.format_exc())
            code = 1
    os._exit(code)


async def _bundle(config: StorageConfig) -> SetupReport:
    from deerstore.persistence import create_persistence_from_storage_config

    persistence = await create_persistence_from_storage_config(config)
    try:
        return await persistence.setup()
    finally:
        await persistence.aclose()


if __name__ == "__main__":
    main()
