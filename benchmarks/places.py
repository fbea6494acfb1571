"""Where the measurements run: one fresh database per engine and driver."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pymysql

from deerstore.config import StorageConfig
from tests.servers import ENVIRONMENT, running

__all__ = ["KINDS", "Place", "places", "scratch"]

KINDS = ("sqlite", "postgres", "aiomysql", "asyncmy")
"""The engines, MySQL once per driver."""


class Place(NamedTuple):
    """An empty database."""

    kind: str
    config: StorageConfig


@contextmanager
def places(kinds: Sequence[str]) -> Iterator[list[Place]]:
    """A fresh database for each kind, on private servers unless the environment names some."""
    engines = {_engine(kind) for kind in kinds} - {"sqlite"}
    with ExitStack() as stack:
        wanted = [name for name in engines if not os.environ.get(ENVIRONMENT[name])]
        servers = stack.enter_context(running(wanted)) if wanted else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deerstore-bench-")))
        urls = {
            name: os.environ.get(ENVIRONMENT[name]) or (servers.url(name) if servers else "")
            for name in engines
        }
        yield [
            Place(kind, stack.enter_context(scratch(kind, urls.get(_engine(kind), ""), folder)))
            for kind in kinds
        ]


@contextmanager
def scratch(kind: str, url: str, folder: Path) -> Iterator[StorageConfig]:
    """A database of its own that goes away afterwards. ``url`` is an administrator's."""
    name = f"bench_{uuid.uuid4().hex[:10]}"
    if kind == "sqlite":
        yield StorageConfig(database_url=f"sqlite:///{folder / name}.db")
        return
    base = url.partition("?")[0].rpartition("/")[0]
    if kind == "postgres":
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{name}"')
            yield StorageConfig(database_url=f"{base}/{name}")
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        return
    parts = StorageConfig(database_url=f"{base}/{name}").targets.aiomysql_kwargs()
    kwargs = {key: parts[key] for key in ("host", "port", "user", "password")}
    with pymysql.connect(**kwargs, autocommit=True) as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}`")
        yield StorageConfig(database_url=f"{base}/{name}".replace("mysql://", f"mysql+{kind}://"))
        admin.ping()
        cursor.execute(f"DROP DATABASE `{name}`")


def _engine(kind: str) -> str:
    return "mysql" if kind in ("aiomysql", "asyncmy") else kind
