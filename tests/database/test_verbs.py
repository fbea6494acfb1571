"""The verbs and the rows that they give."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from deerstore.errors import InvalidValueError, NotFoundError, QueryExecutionError


class Note(BaseModel):
    id: int
    author: str
    body: str | None
    score: int | None


@dataclass
class NoteRecord:
    id: int
    author: str
    body: str | None
    score: int | None


class NoteDict(TypedDict):
    id: int
    author: str
    body: str | None
    score: int | None


class NoteTuple(NamedTuple):
    id: int
    author: str
    body: str | None
    score: int | None


async def test_a_row_is_a_read_only_mapping_that_is_also_addressed_by_position(
    database, catalog, notes
):
    await notes.add(database, 1, body="words", score=3)
    row = await database.fetch_one(catalog["notes.get"], id=1)
    assert isinstance(row, Mapping)
    assert row == {"id": 1, "author": "author 1", "body": "words", "score": 3}
    assert (row["author"], row[1], row[-1], row[1:3]) == (
        "author 1",
        "author 1",
        3,
        ("author 1", "words"),
    )
    assert list(row) == ["id", "author", "body", "score"]
    assert list(row.values()) == [1, "author 1", "words", 3]
    assert dict(**row)["score"] == 3
    with pytest.raises(KeyError):
        row["title"]
    with pytest.raises(IndexError):
        row[4]
    with pytest.raises(TypeError):
        row["id"] = 2
    assert pickle.loads(pickle.dumps(row)) == row == copy.deepcopy(row)


async def test_columns_that_are_not_declared_have_the_same_names(database, catalog, notes):
    await notes.add(database, 1)
    (row,) = await database.fetch_all(catalog["notes.list"])
    assert dict(row) == {"id": 1, "author": "author 1", "body": None, "score": None}


@pytest.mark.parametrize("model", [Note, NoteRecord, NoteDict, NoteTuple])
async def test_rows_become_instances_of_a_model(database, catalog, notes, model):
    await notes.add(database, 1, score=2)
    wanted = {"id": 1, "author": "author 1", "body": None, "score": 2}
    built = model(**wanted)
    assert await database.fetch_one(catalog["notes.get"], as_=model, id=1) == built
    assert await database.fetch_optional(catalog["notes.get"], as_=model, id=1) == built
    assert await database.fetch_all(catalog["notes.list"], as_=model) == [built]
    assert [row async for row in database.stream(catalog["notes.list"], as_=model)] == [built]


async def test_a_row_that_does_not_fit_its_model_names_the_field_and_not_the_value(
    database, catalog, notes
):
    class Strict(BaseModel):
        id: int
        author: int

    await notes.add(database, 1, author="secret words")
    with pytest.raises(QueryExecutionError) as caught:
        await database.fetch_one(catalog["notes.get"], as_=Strict, id=1)
    assert "author" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_fetch_one_wants_exactly_one_row(database, catalog, notes):
    only = catalog["notes.only"]
    with pytest.raises(NotFoundError, match=r"notes\.only"):
        await database.fetch_one(only, score=5)
    await notes.add(database, 1, score=5)
    assert (await database.fetch_one(only, score=5))["id"] == 1
    await notes.add(database, 2, score=5)
    for verb in (database.fetch_one, database.fetch_optional, database.fetch_value):
        with pytest.raises(QueryExecutionError, match=r"notes\.only.*found 2 rows"):
            await verb(only, score=5)


async def test_fetch_optional_and_fetch_value_give_none_where_there_is_no_row(database, catalog):
    assert await database.fetch_optional(catalog["notes.get"], id=1) is None
    assert await database.fetch_value(catalog["notes.get"], id=1) is None
    assert await database.fetch_all(catalog["notes.list"]) == []


async def test_execute_counts_the_rows_that_it_matched_whether_or_not_it_changed_them(
    database, catalog, notes
):
    await notes.add(database, 1, score=1)
    await notes.add(database, 2, score=1)
    assert await database.execute(catalog["notes.set_score"], id=1, score=1) == 1
    assert await database.execute(catalog["notes.set_score"], id=9, score=1) == 0
    assert await database.execute(catalog["notes.raise_scores"]) == 2
    assert await database.execute(catalog["notes.remove"], id=1) == 1
    assert await database.execute(catalog["notes.add_quietly"], id=2, author="again") == 0
    assert await database.execute(catalog["notes.add_quietly"], id=3, author="new") == 1


async def test_execute_many_is_all_or_nothing_and_counts(database, catalog, notes):
    add = catalog["notes.add"]
    rows = [
        {"id": n, "author": f"a{n}", "body": "it's 100% \\ fine", "score": None, "parent_id": None}
        for n in range(1, 1201)
    ]
    assert await database.execute_many(add, []) == 0
    assert await database.execute_many(add, rows) == 1200
    assert (
        await database.execute_many(
            catalog["notes.set_score"], [{"id": 1, "score": 2}, {"id": 5000, "score": 2}]
        )
        == 1
    )
    assert (
        await database.execute_many(
            catalog["notes.add_uncounted"],
            [{"id": 2001, "author": "x"}, {"id": 2002, "author": "y"}],
        )
        == 2
    )
    broken = [{**rows[0], "id": 3000, "author": "first"}, {**rows[0], "id": 3001}]
    with pytest.raises(QueryExecutionError) as caught:
        await database.execute_many(add, broken)
    assert caught.value.sqlstate == "23505"
    assert await database.fetch_value(catalog["notes.count"]) == 1202
    assert (await database.fetch_one(catalog["notes.get"], id=7))["body"] == "it's 100% \\ fine"


async def test_the_steps_of_a_query_are_one_transaction(database, catalog, notes):
    series = catalog["notes.add_series"]
    await notes.add(database, 10)
    assert await database.execute(series, authors=["a", "b", "c"]) == 3
    assert await notes.ids(database) == [10, 11, 12, 13]
    with pytest.raises(QueryExecutionError):
        await database.execute(series, authors=["d", "a"])
    assert await notes.ids(database) == [10, 11, 12, 13]
    assert await database.execute(series, authors=[]) == 0


async def test_a_step_hands_on_what_its_write_came_to(database, catalog, notes):
    """Engines with RETURNING give a row; MySQL's number travels with its answer."""
    await notes.add(database, 1, score=7)
    reply = catalog["notes.raise_with_reply"]
    row = await database.fetch_one(reply, id=1, reply_id=2, author="b")
    assert dict(row) == {"score": 8}
    assert (await database.fetch_one(catalog["notes.get"], id=2))["score"] == 8
    async with database.transaction() as session:
        assert await session.fetch_value(reply, id=1, reply_id=3, author="c") == 9
    assert (await database.fetch_one(catalog["notes.get"], id=3))["score"] == 9
    # A note that is not there: no row, and nothing to hand on.
    assert await database.fetch_optional(reply, id=9, reply_id=4, author="d") is None
    with pytest.raises(QueryExecutionError):
        await database.fetch_optional(reply, id=1, reply_id=4, author="c")
    assert (await database.fetch_one(catalog["notes.get"], id=1))["score"] == 9
    assert await notes.ids(database) == [1, 2, 3]


async def test_lists_are_one_parameter(database, catalog, notes):
    for number in (1, 2, 3):
        await notes.add(database, number)
    rows = await database.fetch_tuples(catalog["notes.among"], {"ids": [3, 1, 77]})
    assert rows == [(1,), (3,)]
    assert await database.fetch_tuples(catalog["notes.among"], {"ids": []}) == []


async def test_percent_signs_are_only_percent_signs(database, catalog, notes):
    await notes.add(database, 1, author="100% sure")
    await notes.add(database, 2, author="never %s mind")
    rows = await database.fetch_all(catalog["notes.like"], pattern="%sure%")
    assert [tuple(row.values()) for row in rows] == [(1, "100%")]


async def test_a_wrong_parameter_is_refused_before_anything_is_sent(database, catalog):
    with pytest.raises(InvalidValueError, match=r"notes\.get"):
        await database.fetch_optional(catalog["notes.get"])
    with pytest.raises(InvalidValueError, match="number"):
        await database.fetch_optional(catalog["notes.get"], id=1, number=2)
    with pytest.raises(InvalidValueError):
        await database.fetch_optional(catalog["notes.get"], id="one")
    with pytest.raises(InvalidValueError):
        await database.fetch_optional(catalog["notes.get"], id=2**63)


async def test_two_columns_of_one_name_are_refused_as_a_mapping(database, catalog, notes):
    await notes.add(database, 1)
    with pytest.raises(QueryExecutionError, match="same name"):
        await database.fetch_all(catalog["notes.twins"])


async def test_the_catalog_of_deerstore_hangs_on_the_executor(database):
    async with database.session() as session:
        assert session.catalog is database.catalog
