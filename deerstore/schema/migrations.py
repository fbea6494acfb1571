"""The migration files: where they are, what they say, statement by statement.

They are yoyo's files in yoyo's format, so that a DBA may also run them with yoyo's own command.
"""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerstore.config.url import Engine
from deerstore.errors import SchemaError

__all__ = ["Migration", "load_migrations", "migrations_folder"]

_PACKAGE = Path(__file__).resolve().parent.parent
_COMMENT = re.compile(r"^\s*(?:--[^\n]*(?:\n|$)|/\*(?![!M]).*?\*/)\s*", re.DOTALL)


@dataclass(frozen=True)
class Migration:
    """One file: its id (the name without ``.sql``) and its statements in order."""

    id: str
    path: Path
    transactional: bool
    statements: tuple[str, ...]
    yoyo: Any
    """yoyo's own object for this file, which its log wants."""


def migrations_folder(engine: Engine) -> Path:
    """The folder of an engine's migrations: in the wheel, or in a checkout beside the package."""
    candidates = (_PACKAGE / "migrations" / engine, _PACKAGE.parent / "migrations" / engine)
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise SchemaError(f"the migrations of {engine} are missing; looked in {candidates[0]}")


def load_migrations(engine: Engine) -> tuple[Migration, ...]:
    """All migrations of an engine, oldest first."""
    from yoyo import read_migrations

    loaded = []
    # yoyo takes a glob pattern.
    for item in sorted(
        read_migrations(glob.escape(str(migrations_folder(engine)))), key=lambda item: item.id
    ):
        item.load()
        statements = tuple(_bare(step._apply) for step in _steps(item))  # noqa: SLF001
        loaded.append(
            Migration(
                id=item.id,
                path=Path(item.path),
                transactional=bool(item.use_transactions),
                statements=statements,
                yoyo=item,
            )
        )
    return tuple(loaded)


def _steps(item: Any) -> list[Any]:
    # yoyo wraps each step in an object that would open a transaction or a savepoint around it.
    return [wrapper.step for wrapper in item.steps]


def _bare(statement: str) -> str:
    """The statement without the comments before it, so that its head says what it does."""
    text = statement.strip()
    while match := _COMMENT.match(text):
        text = text[match.end() :]
    return text.rstrip().removesuffix(";").rstrip()
