"""The command ``deerstore``: the schema, what a restart brings back, and the query files.

Needs the extra ``deerstore[cli]``. Exit codes, the same for every command:

====  ==========================================================================
code  meaning
====  ==========================================================================
0     done, or nothing to do
1     an error; it stands on standard error
2     wrong usage, or a configuration that cannot be used
3     the schema is not up to date: an upgrade is pending
4     the schema has drifted from the one its migration log says
5     the database was made by a newer release
====  ==========================================================================
"""

from __future__ import annotations

import sys

from deerstore.errors import ConfigError, DeerstoreError, MissingExtraError, SchemaTooNewError

__all__ = ["main"]

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_PENDING = 3
EXIT_DRIFT = 4
EXIT_NEWER = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; the arguments are the process's by default."""
    try:
        return _run(arguments)
    except ConfigError as error:
        return _failed(error, EXIT_USAGE)
    except SchemaTooNewError as error:
        return _failed(error, EXIT_NEWER)
    except DeerstoreError as error:
        return _failed(error, EXIT_ERROR)
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells report it.
        return 130


def _run(arguments: list[str] | None) -> int:
    try:
        from deerstore.cli.app import run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich", "click"):
            raise
        raise MissingExtraError("cli", package=package) from error
    return run(arguments)


def _failed(error: DeerstoreError, code: int) -> int:
    print(f"deerstore: {error}", file=sys.stderr)  # noqa: T201 - this is the command line
    return code
