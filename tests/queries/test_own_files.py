"""deerstore's own query files, as a DBA opens them: each statement runs as it stands.

Variant blocks are comments to the engine's shell, so the plain ones run and the hidden ones do not.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import deerstore
from deerstore.config import StorageConfig
from deerstore.queries import load_queries, parity
from deerstore.queries.lexer import SourceText, tokenize
from deerstore.schema.expected import TABLES
from deerstore.workbench.lint import own_catalogs

OWN = Path(deerstore.__file__).parent / "sql"


def statements(engine: str) -> Iterator[tuple[str, str, int]]:
    """Every statement as it stands, with the driver's placeholders: place, SQL, their number."""
    for file in sorted(OWN.rglob(f"{engine}/*.sql")):
        source = SourceText(file.read_text(encoding="utf-8"), file.name)
        names: list[str] = []
        parts: list[str] = []
        begin = 0
        for kind, start, end in tokenize(source, engine):
            if kind == "semicolon":
                yield f"{file.name}:{source.line_of(begin)}", "".join(parts), len(names)
                names, parts, begin = [], [], end
            elif kind == "param":
                name = source.text[start + 1 : end]
                if engine == "mysql" or name not in names:
                    names.append(name)
                position = names.index(name) + 1
                parts.append(
                    {"sqlite": f"?{position}", "postgres": f"${position}"}.get(engine, "?")
                )
            else:
                begin = start if not "".join(parts).strip() else begin
                parts.append(source.text[start:end])


def variants(engine: str) -> Iterator[tuple[str, str, int]]:
    """Every statement of every variant as the driver gets it."""
    queries = [query for one in own_catalogs() for query in one.values() if engine in query.engines]
    for query in queries:
        for variant in query.variants:
            for step in variant.compiled(engine).steps:
                sql = re.sub("%(%|s)", lambda found: "%" if found[1] == "%" else "?", step.sql)
                place = f"{variant!r} {step.name}"
                yield place, sql if engine == "mysql" else step.sql, len(step.order)


async def refusals(engine: str, url: str, statements: Iterable[tuple[str, str, int]]) -> list[str]:
    found = []
    config = StorageConfig(driver=engine, database_url=url)
    if engine == "sqlite":
        connection = sqlite3.connect(config.targets.sqlite_path())
        for place, sql, count in statements:
            try:
                connection.execute(f"EXPLAIN {sql}", (None,) * count).fetchall()
            except sqlite3.Error as error:
                found.append(f"{place}: {error}")
        connection.close()
    elif engine == "postgres":
        import asyncpg

        server = await asyncpg.connect(**config.targets.asyncpg_kwargs())
        for place, sql, _ in statements:
            try:
                await server.prepare(sql)
            except asyncpg.PostgresError as error:
                found.append(f"{place}: {error}")
        await server.close()
    else:
        import pymysql

        mysql = await asyncio.to_thread(pymysql.connect, **config.targets.pymysql_kwargs())
        with mysql.cursor() as cursor:
            cursor.execute("SET NAMES utf8mb4")
            for place, sql, _ in statements:
                try:
                    cursor.execute("PREPARE statement FROM %s", (sql,))
                except pymysql.MySQLError as error:
                    found.append(f"{place}: {error}")
        mysql.close()
    return found


# sqlite3 of Python 3.12.0 to 3.12.3 takes ?1 for a name.
@pytest.mark.filterwarnings("ignore:Binding:DeprecationWarning")
async def test_every_statement_runs_as_it_stands_in_its_file(engine, migrated_url):
    assert len(list(statements(engine))) > 50
    assert await refusals(engine, migrated_url, statements(engine)) == []


async def test_every_variant_is_prepared(engine, migrated_url):
    assert len(list(variants(engine))) > 200
    assert await refusals(engine, migrated_url, variants(engine)) == []


KINDS = {
    "text": {"text", "varchar", "json", "jsonb"},
    "int": {"int8"},
    "float": {"float8"},
    "bool": {"bool"},
    "timestamp": {"timestamptz"},
    "json": {"json", "jsonb", "text"},
    "bytes": {"bytea"},
}


@pytest.mark.engines("postgres", why="only it tells the types of a prepared statement")
async def test_postgres_finds_the_declared_types(engine, migrated_url):
    import asyncpg

    wrong = []
    config = StorageConfig(driver=engine, database_url=migrated_url)
    server = await asyncpg.connect(**config.targets.asyncpg_kwargs())
    for query in load_queries(OWN, engines=(engine,)).values():
        if query.name.startswith("schema."):
            # The catalog and yoyo's tables have types of their own, and are read by psycopg.
            continue
        for variant in query.variants:
            compiled = variant.compiled(engine)
            declared = {parameter.name: parameter.type for parameter in compiled.params}
            for number, step in enumerate(compiled.steps):
                statement = await server.prepare(step.sql)
                for name, kind in zip(step.order, statement.get_parameters(), strict=True):
                    if name not in declared:
                        continue
                    one = kind.name.removesuffix("[]").lstrip("_")
                    is_list = declared[name].is_list and not step.each
                    if one not in KINDS[declared[name].base] or is_list != (kind.kind == "array"):
                        wrong.append(f"{variant!r} :{name} {declared[name]} is {kind.name}")
                if number == compiled.result_step and compiled.columns:
                    given = [(field.name, field.type.name) for field in statement.get_attributes()]
                    if [name for name, _ in given] != [one.name for one in compiled.columns]:
                        wrong.append(f"{variant!r} gives {given}")
                    wrong += [
                        f"{variant!r} {name} {column.type} is {kind}"
                        for (name, kind), column in zip(given, compiled.columns, strict=False)
                        if kind not in KINDS[column.type]
                    ]
    await server.close()
    assert not wrong, "\n".join(wrong)


def test_an_index_that_a_query_forces_is_named_in_its_plan_and_expected_to_be_there():
    forced = {index.name for table in TABLES for index in table.indexes if "mysql" in index.forced}
    found = set()
    for query in load_queries(OWN, engines=("mysql",)).values():
        for variant in query.variants:
            for step in variant.compiled("mysql").steps:
                names = set(re.findall(r"FORCE INDEX \((\w+)\)", step.sql)) - {"PRIMARY"}
                assert all(name in query.plan for name in names), query.name
                found |= names
                if names:
                    text = Path(query.sources["mysql"].file).read_text(encoding="utf-8")
                    assert "fails without it" in text, query.name
    assert found == forced


def test_the_same_queries_exist_on_every_engine():
    assert [str(difference) for difference in parity(load_queries(OWN))] == []
