"""`python -m examples.demo`: start the first process, kill it, start the second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path

from examples.demo.first import WAITING

_SECONDS = 120


def main() -> int:
    """Run the demo on `DEMO_URL`, or on SQLite in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="deerstore-demo-") as folder:
        url = os.environ.get("DEMO_URL") or f"sqlite:///{Path(folder) / 'demo.db'}"
        token = uuid.uuid4().hex[:12]
        print(f"On {url.partition(':')[0]}: a conversation begins …", flush=True)
        first = _start("first", url, token, stdout=subprocess.PIPE)
        with first:
            assert first.stdout is not None
            overdue = threading.Timer(_SECONDS, first.kill)
            overdue.start()
            reached = any(line.strip() == WAITING for line in first.stdout)
            overdue.cancel()
            first.send_signal(signal.SIGKILL)
        if not reached or first.returncode != -signal.SIGKILL:
            print("the first process ended before it could be killed", file=sys.stderr)
            return 1
        print("… the agent asks the human, and its process is killed with SIGKILL.\n")
        print("A second process opens the same database:", flush=True)
        return _start("second", url, token).wait(_SECONDS)


def _start(part: str, url: str, token: str, *, stdout: int | None = None) -> subprocess.Popen[str]:
    # The URL holds a password: a command line is for everyone to read, the environment is not.
    return subprocess.Popen(
        [sys.executable, "-m", f"examples.demo.{part}", token],
        env={**os.environ, "DEMO_URL": url},
        stdout=stdout,
        text=True,
    )


if __name__ == "__main__":
    sys.exit(main())
