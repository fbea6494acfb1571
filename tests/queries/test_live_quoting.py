"""The servers read strings, names and comments as the lexer does."""

from __future__ import annotations

import random

import pytest

from deerstore.config import StorageConfig
from deerstore.queries import load_queries
from tests.queries.fragments import comment, dollar_quoted, doubled, escaped

ALPHABET = "'\":`$[]/*-\\;#%?!@aq1 \n\té"


def texts(count: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(ALPHABET, k=chance.randrange(1, 9))) for _ in range(count)]


def compiled(folder, engine, sql):
    path = folder / engine
    path.mkdir(exist_ok=True)
    (path / "q.sql").write_text(
        f"-- name: q.all :one\n-- param p: text\nSELECT {sql};\n", encoding="utf-8", newline="\n"
    )
    return load_queries(folder)["q.all"].compiled(engine)


@pytest.mark.engines("postgres", why="dollar quotes, E strings and nested comments are its own")
async def test_postgres_gives_every_literal_back(storage_url, tmp_path):
    import asyncpg

    connection = await asyncpg.connect(
        **StorageConfig(driver="postgres", database_url=storage_url).targets.asyncpg_kwargs()
    )
    try:
        for text in texts(60):
            query = compiled(
                tmp_path,
                "postgres",
                f"{doubled(text, chr(39))} AS {doubled(text, chr(34))} /* {comment(text)} :p */, "
                f"E{escaped(text, chr(39))}, {dollar_quoted(text, 'q')}, --{text.split(chr(10))[0]}"
                f"\n(ARRAY[:p::text, 'b'])[1:2], '{{\"a\": 1}}'::jsonb ? 'a', 7 % 4, :p::text",
            )
            (args,) = query.bind({"p": "value"})
            row = await connection.fetchrow(query.steps[0].sql, *args)
            plain = text.replace("$", "")
            assert list(row) == [text, text, plain, ["value", "b"], True, 3, "value"]
            assert next(iter(row.keys())) == text
    finally:
        await connection.close()


@pytest.mark.engines("mysql", why="backslashes, hash comments and executable comments are its own")
async def test_mysql_gives_every_literal_back(storage_url, tmp_path):
    import aiomysql

    connection = await aiomysql.connect(
        **StorageConfig(driver="mysql", database_url=storage_url).targets.aiomysql_kwargs()
    )
    try:
        async with connection.cursor() as cursor:
            await cursor.execute("SET NAMES utf8mb4")
            for text in texts(60):
                first = text.split("\n")[0]
                query = compiled(
                    tmp_path,
                    "mysql",
                    f"{doubled(text.replace(chr(92), ''), chr(39))} {comment(text)}, # {first} :p\n"
                    f"{escaped(text, chr(39))}, -- {first} :p\n"
                    f"{escaped(text, chr(34))}, 7 % 4, 5--1 /*!50000 , :p */, :p",
                )
                (args,) = query.bind({"p": "50% %s"})
                await cursor.execute(query.steps[0].sql, args)
                row = await cursor.fetchone()
                plain = text.replace("\\", "")
                assert row == (plain, text, text, 3, 6, "50% %s", "50% %s")
    finally:
        connection.close()
