"""Folders of query files for the tests of the registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deerstore.queries import ENGINES, QueryCatalog, load_queries

Loader = Callable[..., QueryCatalog]


@pytest.fixture
def load(tmp_path: Path) -> Loader:
    """`load("-- name: …")` gives the same file to every engine; keywords give each its own."""

    def loader(text: str | None = None, **texts: str) -> QueryCatalog:
        if text is not None:
            texts = dict.fromkeys(ENGINES, text)
        for engine, content in texts.items():
            folder = tmp_path / engine
            folder.mkdir(exist_ok=True)
            (folder / "queries.sql").write_text(content, encoding="utf-8", newline="\n")
        return load_queries(tmp_path)

    return loader
