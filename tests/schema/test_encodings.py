"""Databases that were made for another character set."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from deerstore.errors import SchemaError
from deerstore.schema import setup_schema
from tests.fixtures.fix_databases import configured


@pytest.mark.engines("postgres", why="MySQL's tables have a character set of their own")
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_an_encoding_that_cannot_hold_every_character_is_refused(
    storage_url: str, encoding: str
):
    parts = urlsplit(storage_url)
    name = parts.path.lstrip("/")
    admin = urlunsplit(parts._replace(path="/postgres"))
    with psycopg.connect(admin, autocommit=True) as connection:
        provider = "LOCALE_PROVIDER libc" if connection.info.server_version >= 150_000 else ""
        connection.execute(f'DROP DATABASE "{name}"')
        connection.execute(
            f"CREATE DATABASE \"{name}\" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
            f"{provider} TEMPLATE template0"
        )
    with pytest.raises(SchemaError, match=f"has the encoding {encoding}.*ENCODING 'UTF8'"):
        await setup_schema(configured(storage_url))
    with psycopg.connect(storage_url) as connection:
        found = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
        assert found.fetchall() == []
