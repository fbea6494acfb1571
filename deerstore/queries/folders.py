"""Folders and files of queries: which are read, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deerstore.errors import QueryFileError
from deerstore.queries.compiler import Definition, compile_query
from deerstore.queries.header import near, read_declarations
from deerstore.queries.lexer import SourceText, tokenize
from deerstore.queries.model import ENGINES

__all__ = ["engine_folders", "query_files", "read_file", "read_folder"]

_FOLDER_ALIASES = {
    "sqlite3": "sqlite",
    "postgresql": "postgres",
    "pg": "postgres",
    "psql": "postgres",
    "mariadb": "mysql",
}


def engine_folders(root: Path, engines: Sequence[str]) -> list[str]:
    """The engines, of those asked for, that have a folder in ``root``."""
    try:
        children = sorted(child.name for child in root.iterdir() if child.is_dir())
    except OSError as error:
        raise QueryFileError(
            f"cannot read the folder of query files: {error.strerror}", file=str(root)
        ) from error
    present: list[str] = [engine for engine in ENGINES if engine in engines and engine in children]
    wanted = ", ".join(f"{engine}/" for engine in engines)
    for child in children:
        meant = _FOLDER_ALIASES.get(child.lower()) or near(child, list(engines), cutoff=0.75)
        if meant in engines and meant not in children:
            raise QueryFileError(
                f"folder {child!r} is not one of {wanted}; did you mean {meant!r}?", file=str(root)
            )
    if not present:
        hint = ""
        if any(child.suffix.lower() == ".sql" for child in root.iterdir()):
            hint = "; .sql files belong into the folder of their engine"
        raise QueryFileError(f"no engine folder here: looked for {wanted}{hint}", file=str(root))
    return present


def read_folder(folder: Path, engine: str) -> list[Definition]:
    """Every query of one engine's folder, compiled, in the order of the files."""
    found: dict[str, Definition] = {}
    for file in query_files(folder):
        read_file(file, engine, found)
    return list(found.values())


def query_files(folder: Path) -> list[Path]:
    """The files of a folder, in order."""
    return [
        file
        for file in sorted(folder.iterdir())
        if file.suffix.lower() == ".sql" and not file.name.startswith(".") and not file.is_dir()
    ]


def read_file(file: Path, engine: str, found: dict[str, Definition]) -> None:
    """Compile the queries of a file and put them into ``found``, where none may be yet."""
    source = _read(file)
    for query in read_declarations(source, tokenize(source, engine)):
        earlier = found.get(query.name)
        if earlier is not None:
            raise source.error(
                f"query {query.name!r} is already defined at {earlier.source}", *query.place
            )
        found[query.name] = compile_query(source, engine, query)


def _read(file: Path) -> SourceText:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise QueryFileError(f"cannot read the file: {error.strerror}", file=str(file)) from error
    try:
        # Editors put a byte order mark before the text: it is not part of it.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line_start = before.rfind(b"\n") + 1
        raise QueryFileError(
            f"not UTF-8: byte 0x{raw[error.start]:02x} cannot be decoded",
            file=str(file),
            line=before.count(b"\n") + 1,
            column=len(before[line_start:].decode("utf-8-sig", "replace")) + 1,
        ) from error
    return SourceText(text.replace("\r\n", "\n").replace("\r", "\n"), str(file))
