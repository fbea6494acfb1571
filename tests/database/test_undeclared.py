"""Columns that a query does not declare come alike on every engine, as far as drivers know them."""

from __future__ import annotations

import sqlite3
from contextlib import aclosing
from datetime import UTC, date, datetime

import pytest
from pydantic import BaseModel

from deerstore.database import sqlite_types

MOMENT = datetime(2026, 3, 29, 1, 30, 15, 120, tzinfo=UTC)
LATER = datetime(2026, 3, 29, 2, tzinfo=UTC)


class Bare(BaseModel):
    flag: bool
    moment: datetime


@pytest.fixture
async def bare(open_database, catalog):
    database = await open_database()
    await database.execute(catalog["bare.create_table"])
    await database.execute(catalog["bare.put"], id=1, flag=True, moment=MOMENT, title="t")
    await database.execute(catalog["bare.put"], id=2, flag=False, moment=LATER, title="t")
    await database.execute(catalog["bare.put"], id=3, flag=None, moment=None, title="t")
    return database


def exactly(rows):
    """Values with what tells them apart from values that are equal to them."""
    return [[(type(value), value, getattr(value, "tzinfo", None)) for value in row] for row in rows]


async def rows_of(executor, query, **params):
    return [tuple(row.values()) for row in await executor.fetch_all(query, **params)]


async def test_times_truth_values_and_dates_have_their_types(bare, catalog, engine):
    found = await rows_of(bare, catalog["bare.all"], title="t")
    document = found[0][5]
    rest = (MOMENT, date(2026, 3, 29), document, "t")
    assert exactly(found) == exactly(
        [(1, True, MOMENT, *rest), (2, False, LATER, *rest), (3, None, None, *rest)]
    )
    assert document == "[1, 2]"
    assert exactly(await rows_of(bare, catalog["bare.all"], title="t")) == exactly(found)


async def test_a_model_gets_aware_times(bare, catalog):
    query = catalog["bare.flags"]
    async with aclosing(bare.stream(query, as_=dict, batch=1)) as rows:
        found = [row async for row in rows]
    assert exactly(row.values() for row in found) == exactly(
        [(True, MOMENT), (False, LATER), (None, None)]
    )
    first, *_ = [Bare.model_validate(row) for row in found[:2]]
    assert (first.flag, first.moment.tzinfo) == (True, UTC)


async def test_functions_joins_and_ctes_keep_times(bare, catalog):
    assert exactly([[await bare.fetch_value(catalog["bare.latest"])]]) == exactly([[LATER]])
    found = await bare.fetch_tuples(catalog["bare.through_others"], {"days": 1})
    assert exactly(found) == exactly(
        [(True, MOMENT, MOMENT, 2, MOMENT), (False, LATER, LATER, 2, LATER)]
    )


@pytest.mark.engines("sqlite", "postgres", why="MySQL has no RETURNING that MariaDB shares")
async def test_what_a_write_gives_back_has_the_same_types(bare, catalog):
    put = {"id": 7, "flag": True, "moment": MOMENT}
    row = await bare.fetch_one(catalog["bare.put_back"], **put)
    assert exactly([row.values()]) == exactly([(True, MOMENT, 8)])
    async with bare.transaction() as session:
        found = await rows_of(session, catalog["bare.touch"], moment=LATER)
        found += await rows_of(session, catalog["bare.drop"], id=2)
        assert exactly(found) == exactly([(LATER, True), (LATER, False)])
    assert [row["id"] for row in await bare.fetch_all(catalog["bare.all"], title="t")] == [1, 3]


@pytest.mark.engines("sqlite", why="the servers send the types of columns with the rows")
async def test_a_statement_is_asked_about_once_and_again_when_its_columns_change(
    open_database, catalog, monkeypatch
):
    asked = []
    outlines = sqlite_types.outlines
    monkeypatch.setattr(
        sqlite_types, "outlines", lambda step: asked.append(step.sql) or outlines(step)
    )
    database = await open_database()
    await database.execute(catalog["kinds.create_table"])
    nothing = dict.fromkeys(("words", "amount", "ratio", "document", "raw"))
    await database.execute(catalog["kinds.put"], id=1, flag=True, moment=MOMENT, **nothing)
    for _ in range(2):
        await database.fetch_one(catalog["kinds.get"], id=1)
        await database.fetch_all(catalog["kinds.everything"])
    async with database.session() as session:
        await session.fetch_all(catalog["kinds.everything"])
    assert len(asked) == 1
    await database.execute(catalog["kinds.widen"])
    row = await database.fetch_one(catalog["kinds.everything"])
    assert (row["moment"], row["flag"], row["later"]) == (MOMENT, True, None)
    assert len(asked) == 2


@pytest.mark.engines("sqlite", why="only here may anything lie in any column")
async def test_what_does_not_fit_its_column_stays_as_it_is(bare, catalog):
    with sqlite3.connect(bare.config.targets.sqlite_path()) as writer:
        writer.execute("UPDATE bare SET moment = 'soon', flag = 7, day = 'never' WHERE id = 1")
        writer.execute("UPDATE bare SET moment = 17, flag = 'so', day = 5 WHERE id = 2")
    writer.close()
    found = await rows_of(bare, catalog["bare.all"], title="t")
    assert [(row[1], row[2], row[4]) for row in found[:2]] == [
        (7, "soon", "never"),
        ("so", 17, 5),
    ]
