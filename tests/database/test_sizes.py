"""Statements that are larger than the server takes."""

from __future__ import annotations

import pytest

from deerstore.errors import InvalidValueError
from tests.database.server import Server

pytestmark = pytest.mark.engines("mysql", why="the others take any statement that memory holds")


@pytest.fixture
async def limit(url: str, engine: str) -> int:
    ((found,),) = await Server(engine, url)._ask("SELECT @@max_allowed_packet")
    return int(found)


@pytest.mark.parametrize("kind", ["words", "raw"])
async def test_a_value_that_is_too_large_is_refused_before_it_is_sent(
    database, catalog, limit: int, kind: str
):
    empty = dict.fromkeys(("words", "amount", "ratio", "flag", "moment", "document", "raw"))
    put = catalog["kinds.put"]
    # Bytes travel as hexadecimal digits.
    fits = {"words": "x" * (limit - 10_000), "raw": b"x" * (limit // 2 - 10_000)}[kind]
    await database.execute(put, id=1, **{**empty, kind: fits})
    for size in (1, 3):
        with pytest.raises(InvalidValueError, match="max_allowed_packet"):
            await database.execute(put, id=2, **{**empty, kind: fits * size + fits[:20_000]})
        # The connection is in order, and nobody else hears of it.
        row = await database.fetch_one(catalog["kinds.get"], id=1)
        assert row[kind] == fits
    assert database.pool.in_use == 0


async def test_a_row_that_is_too_large_takes_its_batch_with_it(database, catalog, limit: int):
    add = catalog["notes.add_uncounted"]
    rows = [{"id": number, "author": "a" * (limit if number == 5 else number)} for number in (3, 5)]
    with pytest.raises(InvalidValueError, match="max_allowed_packet"):
        await database.execute_many(add, rows)
    assert await database.fetch_value(catalog["notes.count"]) == 0
    async with database.session() as session:
        await session.execute(add, id=1, author="b")
        with pytest.raises(InvalidValueError, match="max_allowed_packet"):
            await session.execute_many(add, rows)
        await session.commit()
    assert await database.fetch_value(catalog["notes.count"]) == 1
