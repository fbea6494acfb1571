"""Install a server's Debian package when it is missing, without starting a system service."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.client import ENVIRONMENT, ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLICY = Path("/usr/sbin/policy-rc.d")


def install(package: str) -> None:
    """Install a package as root; anybody else is told what to install.

    Raises:
        ServerError: The package is missing and cannot be installed from here.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ServerError(
            f"the tests need a server that is not installed: install {package} "
            f"(Debian: apt-get install {package}), or name a server of your own in "
            f"{' and '.join(ENVIRONMENT.values())}"
        )
    print(f"installing the Debian package {package}", file=sys.stderr, flush=True)
    with _no_services():
        _apt("update")
        _apt("install", "-y", "--no-install-recommends", package)


def _apt(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "-q", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=False,
    )
    if done.returncode:
        raise ServerError(f"apt-get {' '.join(arguments)} failed:\n{done.stdout[-2000:]}")


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Keep the packages from starting servers: Debian asks a small script for leave."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)
