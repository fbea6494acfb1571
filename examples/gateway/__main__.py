"""`python -m examples.gateway`: the service, on SQLite unless another database is named."""

from __future__ import annotations

import argparse
import os
import socket

import uvicorn

from examples.gateway.app import create_app


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m examples.gateway", description=__doc__)
    parser.add_argument(
        "--url",
        default=os.environ.get("GATEWAY_URL", "sqlite:///gateway.db"),
        help="the database; a URL with a password belongs into GATEWAY_URL, where nobody reads it "
        "from the process list (default: %(default)s)",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=2024)
    options = parser.parse_args()
    # A name that the same worker has again after a restart: it ends its former runs at once.
    worker_id = f"{socket.gethostname()[:100]}:{options.port}"
    app = create_app(options.url, worker_id=worker_id)
    # Open streams are cut, so that the runs behind them can be wound up in time.
    uvicorn.run(app, host=options.host, port=options.port, timeout_graceful_shutdown=3)


if __name__ == "__main__":
    main()
