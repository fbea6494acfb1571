"""Private servers for the tests: hostile settings, free ports, a temporary folder.

    with running(("postgres", "mysql")) as servers:
        servers.url("postgres")         # an administrator's URL

    python -m tests.servers run -- pytest

The servers belong to a *keeper*, a process of its own that lives as long as the pipe to its
parent does. However the parent ends, SIGKILL included, the keeper stops the servers and removes
the folder.
"""

from __future__ import annotations

from tests.servers.client import ENVIRONMENT, ServerError, Servers, running

__all__ = ["ENVIRONMENT", "ServerError", "Servers", "running"]
