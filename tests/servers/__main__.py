"""`python -m tests.servers run -- COMMAND…` runs a command with both servers in its environment."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.servers.client import ENVIRONMENT, ServerError, running
from tests.servers.keeper import keep


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit status is the command's own."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a command with both servers, then stop them")
    run.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("keep", help="hold servers for a parent process (for `running` itself)")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "keep":
        return keep(sys.stdin, sys.stdout)
    command = chosen.command[1:] if chosen.command[:1] == ["--"] else chosen.command
    if not command:
        parser.error("run: which command?")
    wanted = [name for name, variable in ENVIRONMENT.items() if not os.environ.get(variable)]
    try:
        with running(wanted) as servers:
            found = {ENVIRONMENT[name]: servers.url(name) for name in wanted}
            return subprocess.call(command, env={**os.environ, **found})
    except ServerError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
