"""A process that sets databases up and dies when it is told to: `python -m tests.schema.victim`.

Reads one JSON object per line and answers with one. Each job runs in a fork, so that the imports
are paid once:

* `{"url": …, "kill_at": n}` kills itself with SIGKILL before its n-th writing statement; with
  `"outside": true` those inside a transaction, which all leave the same behind, do not count
* `{"url": …, "hold": seconds}` keeps the setup lock for a while, as a slow migration would
* `{"url": …}` just runs
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import traceback
from typing import Any

_READ = re.compile(r"\s*(/\*.*?\*/\s*)?SELECT\b", re.DOTALL)


def main() -> None:
    from deerstore.schema.engines import base

    # Loaded before the forks.
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
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "code": status, "said": said}), flush=True)


def _child(job: dict[str, Any], writing: int) -> None:
    from deerstore.schema import setup_schema
    from deerstore.schema.engines.base import SchemaEngine
    from tests.fixtures.fix_databases import configured

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
            report = asyncio.run(setup_schema(configured(job["url"]), langgraph_setup=hold))
            out.write(json.dumps(report.applied))
        except BaseException:  # noqa: BLE001 - the test wants to see it
            out.write(traceback.format_exc())
            code = 1
    os._exit(code)


if __name__ == "__main__":
    main()
