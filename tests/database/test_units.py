"""Units: several queries with Python between them, one transaction, on SQLite one trip."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from deerstore.errors import DeerstoreError, InvalidValueError, QueryExecutionError
from tests.database.test_cancellation import assert_whole, cancelled_after


@pytest.fixture
def add_next(catalog):
    """A unit that adds a note after the last one, and gives what it found and its key."""

    def work(step: int = 1) -> Iterator[object]:
        ((found,),) = yield catalog["notes.count"], {}
        nothing = yield (
            catalog["notes.add"],
            {"id": found + step, "author": f"a{found + step}", "body": None, "score": None}
            | {"parent_id": None},
        )
        assert nothing == []
        rows = yield catalog["notes.get"], {"id": found + step}
        return found, rows

    return work


async def test_a_unit_is_sent_the_rows_and_gives_its_result(database, add_next):
    assert await database.unit(add_next) == (0, [(1, "a1", None, None)])
    assert await database.unit(lambda: add_next(5)) == (1, [(6, "a6", None, None)])


async def test_units_of_many_tasks_do_not_see_each_other_half_done(database, notes, catalog):
    await notes.add(database, 1, score=0)

    def work() -> Iterator[object]:
        yield catalog["notes.set_score"], {"id": 1, "score": 0}
        ((*_, score),) = yield catalog["notes.get"], {"id": 1}
        yield catalog["notes.set_score"], {"id": 1, "score": score + 1}
        return score

    assert await asyncio.gather(*(database.unit(work) for _ in range(20))) == [0] * 20


class RefusalError(Exception):
    """Python between two queries says no."""


@pytest.mark.parametrize(
    "error", [RefusalError("no"), DeerstoreError("no"), KeyError("no"), ValueError("closed")]
)
async def test_an_exception_between_two_queries_undoes_the_unit(database, notes, catalog, error):
    ended = []

    def work() -> Iterator[object]:
        try:
            yield catalog["notes.add_uncounted"], {"id": 1, "author": "a"}
            raise error
        finally:
            ended.append(True)

    with pytest.raises(type(error)) as caught:
        await database.unit(work)
    assert caught.value is error
    assert ended
    assert await notes.ids(database) == []
    await assert_whole(database, None, catalog)


async def test_a_statement_that_fails_undoes_the_unit_and_is_named(database, notes, catalog):
    def work() -> Iterator[object]:
        yield catalog["notes.add_uncounted"], {"id": 1, "author": "a"}
        yield catalog["notes.add_uncounted"], {"id": 1, "author": "b"}

    with pytest.raises(QueryExecutionError, match=r"notes\.add_uncounted") as caught:
        await database.unit(work)
    assert caught.value.sqlstate == "23505"
    assert await notes.ids(database) == []


async def test_a_parameter_that_breaks_a_rule_undoes_the_unit(database, notes, catalog):
    def work() -> Iterator[object]:
        yield catalog["notes.add_uncounted"], {"id": 1, "author": "a"}
        yield catalog["notes.add_uncounted"], {"id": "two", "author": "b"}

    with pytest.raises(InvalidValueError, match="'id'"):
        await database.unit(work)
    assert await notes.ids(database) == []


async def test_a_unit_in_a_session_is_the_sessions(database, notes, catalog, add_next):
    async with database.session() as session:
        await notes.add(session, 1)
        assert (await session.unit(add_next))[0] == 1

        def broken() -> Iterator[object]:
            yield from add_next()
            raise RefusalError

        with pytest.raises(RefusalError):
            await session.unit(broken)
        assert await notes.ids(session) == [1, 2]
        await session.rollback()
        assert await notes.ids(session) == []


async def test_a_reading_unit_opens_no_transaction(database, notes, catalog):
    await notes.add(database, 1)

    def work() -> Iterator[object]:
        ((count,),) = yield catalog["notes.count"], {}
        return count, (yield catalog["notes.get"], {"id": 1})

    count, rows = await database.unit(work, writes=False)
    assert (count, rows[0][0]) == (1, 1)
    async with database.session() as session:
        assert (await session.unit(work, writes=False))[0] == 1
        assert not session.in_transaction


async def test_a_cancelled_unit_leaves_nothing(database, open_database, server, catalog, notes):
    tight = await open_database(pool_size=2, acquire_timeout=10)
    await notes.add(database, 1, score=1)

    def work() -> Iterator[object]:
        yield catalog["notes.set_score"], {"id": 1, "score": 9}
        yield catalog["slow.write"], {"seconds": 20.0}

    assert await cancelled_after(0.3, tight.unit(work))
    await assert_whole(tight, server, catalog)
    ((_, _, _, score),) = await database.fetch_tuples(catalog["notes.get"], {"id": 1})
    assert score == 1


async def test_a_unit_that_takes_too_long_says_so(open_database, database, catalog, notes):
    short = await open_database(command_timeout=0.5)

    def work() -> Iterator[object]:
        yield catalog["notes.add_uncounted"], {"id": 1, "author": "a"}
        yield catalog["slow.write"], {"seconds": 20.0}

    with pytest.raises(QueryExecutionError, match=r"slow\.write"):
        await short.unit(work)
    assert await notes.ids(database) == []


async def test_a_unit_that_said_it_only_reads_does_not_write(database, notes, catalog):
    def work() -> Iterator[object]:
        yield catalog["notes.count"], {}
        yield catalog["notes.add_uncounted"], {"id": 1, "author": "a"}

    async with database.session() as session:
        for executor in (database, session):
            with pytest.raises(InvalidValueError, match=r"notes\.add_uncounted writes"):
                await executor.unit(work, writes=False)
    assert await notes.ids(database) == []


@pytest.mark.parametrize("writes", [True, False])
async def test_what_is_no_unit_is_refused_in_words(database, catalog, writes):
    with pytest.raises(TypeError, match="has to make a generator"):
        await database.unit(lambda: 5, writes=writes)

    def bare() -> Iterator[object]:
        yield catalog["notes.count"]

    with pytest.raises(TypeError):
        await database.unit(bare, writes=writes)
    await assert_whole(database, None, catalog)
