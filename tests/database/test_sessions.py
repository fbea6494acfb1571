"""Sessions: transactions, savepoints, isolation."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from deerstore.errors import (
    ConcurrentSessionUseError,
    DeerstoreError,
    NotFoundError,
    QueryExecutionError,
)


async def test_leaving_without_commit_rolls_back(database, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        assert await notes.ids(session) == [1]
    assert await notes.ids(database) == []


async def test_what_is_committed_lasts_and_what_comes_after_is_a_new_transaction(database, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        await session.commit()
        await notes.add(session, 2)
        await session.rollback()
        await notes.add(session, 3)
        await session.commit()
        await notes.add(session, 4)
    assert await notes.ids(database) == [1, 3]


async def test_a_transaction_commits_at_its_end_and_rolls_back_on_an_exception(database, notes):
    async with database.transaction() as session:
        await notes.add(session, 1)

    async def broken() -> None:
        async with database.transaction() as session:
            await notes.add(session, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()
    assert await notes.ids(database) == [1]


async def test_commit_and_rollback_without_a_write_do_nothing(database):
    async with database.session() as session:
        await session.commit()
        await session.rollback()
        assert not session.in_transaction
    assert database.pool.in_use == 0


async def test_a_session_takes_its_connection_with_its_first_statement(database, notes):
    async with database.session() as session:
        assert database.pool.in_use == 0
        await notes.ids(session)
        assert database.pool.in_use == 1
    assert database.pool.in_use == 0


async def test_sessions_do_not_see_what_others_have_not_committed(database, notes):
    async with database.session() as one, database.session() as other:
        await notes.ids(other)
        await notes.add(one, 1)
        assert await notes.ids(other) == []
        await one.commit()
        assert await notes.ids(other) == [1]


async def test_a_read_inside_a_transaction_sees_the_newest_committed_data(
    database, open_database, notes, catalog, engine
):
    elsewhere = await open_database()
    async with database.session() as session:
        await notes.add(session, 1)
        if engine == "sqlite":
            # There a transaction that has written is the only one that can.
            assert await notes.ids(session) == [1]
            return
        await notes.add(elsewhere, 2)
        assert await notes.ids(session) == [1, 2]


async def test_one_sessions_rollback_never_touches_anothers_write(database, notes):
    async with database.session() as one, database.session() as other:
        await notes.add(one, 1)
        await one.commit()
        await notes.add(other, 2)
        await other.rollback()
        await notes.add(one, 3)
        await one.commit()
    assert await notes.ids(database) == [1, 3]


async def test_a_failed_statement_leaves_what_was_written_before_it(database, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        for wrong in ({"number": 1}, {"number": 2, "parent_id": 77}, {"number": 2, "score": -1}):
            with pytest.raises(QueryExecutionError):
                await notes.add(session, wrong.pop("number"), **wrong)
        await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [1, 2]


async def test_a_failed_read_leaves_the_transaction_usable(database, catalog, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        with pytest.raises(QueryExecutionError):
            await session.fetch_value(catalog["notes.mistaken"])
        with pytest.raises(NotFoundError):
            await session.fetch_one(catalog["notes.only"], score=3)
        await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [1, 2]


async def test_a_first_write_that_fails_leaves_the_session_usable(database, notes):
    await notes.add(database, 1)
    async with database.session() as session:
        with pytest.raises(QueryExecutionError):
            await notes.add(session, 1)
        await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [1, 2]


async def test_half_of_a_query_of_several_steps_never_stays(database, catalog, notes):
    series = catalog["notes.add_series"]
    async with database.session() as session:
        await notes.add(session, 1)
        with pytest.raises(QueryExecutionError):
            await session.execute(series, authors=["new", "author 1"])
        with pytest.raises(QueryExecutionError):
            await session.execute_many(series, [{"authors": ["x"]}, {"authors": ["x"]}])
        assert await session.execute(series, authors=["y", "z"]) == 2
        await session.commit()
    assert await notes.ids(database) == [1, 2, 3]


async def test_a_savepoint_is_undone_by_the_exception_that_leaves_it(database, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        async with session.begin_nested():
            await notes.add(session, 2)

        async def broken() -> None:
            async with session.begin_nested():
                await notes.add(session, 3)
                async with session.begin_nested():
                    await notes.add(session, 4)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await broken()
        assert await notes.ids(session) == [1, 2]
        await session.commit()
    assert await notes.ids(database) == [1, 2]


async def test_a_savepoint_may_be_the_first_thing_in_a_session(database, notes):
    async with database.session() as session:

        async def broken() -> None:
            async with session.begin_nested():
                await notes.add(session, 1)
                await notes.add(session, 1)

        with pytest.raises(QueryExecutionError):
            await broken()
        async with session.begin_nested(), session.begin_nested():
            await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [2]


async def test_a_savepoint_without_a_write_costs_nothing(database, notes):
    async with database.session() as session:
        async with session.begin_nested():
            await notes.ids(session)
        assert not session.in_transaction


async def test_an_error_inside_a_savepoint_that_is_handled_there_is_over(database, notes):
    async with database.session() as session:
        async with session.begin_nested():
            await notes.add(session, 1)
            with pytest.raises(QueryExecutionError):
                await notes.add(session, 1)
            await notes.add(session, 2)
        await session.commit()
    assert await notes.ids(database) == [1, 2]


async def test_commit_inside_a_savepoint_is_refused(database, notes):
    async with database.session() as session:
        async with session.begin_nested():
            await notes.add(session, 1)
            with pytest.raises(DeerstoreError, match="begin_nested"):
                await session.commit()
        await session.commit()
    assert await notes.ids(database) == [1]


async def test_rollback_inside_a_savepoint_undoes_everything(database, notes):
    async with database.session() as session:
        await notes.add(session, 1)
        async with session.begin_nested():
            await notes.add(session, 2)
            await session.rollback()
            await notes.add(session, 3)
        await session.commit()
    assert await notes.ids(database) == [3]


@pytest.mark.parametrize("first", ["read", "write", "commit"])
async def test_two_coroutines_on_one_session_are_told_so_and_damage_nothing(
    database, catalog, notes, first
):
    async with database.session() as session:
        await notes.add(session, 1)
        calls = [
            {
                "read": lambda: notes.ids(session),
                "write": lambda: notes.add(session, 2),
                "commit": session.commit,
            }[first](),
            notes.add(session, 3),
            notes.ids(session),
            session.commit(),
            session.rollback(),
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert not isinstance(outcomes[0], Exception)
        assert [type(outcome) for outcome in outcomes[1:]] == [ConcurrentSessionUseError] * 4
        await session.commit()
    assert await notes.ids(database) == ([1, 2] if first == "write" else [1])


async def test_a_session_closed_under_a_running_call_gives_its_connection_back(
    database, catalog, notes
):
    session = database.session()
    await notes.add(session, 1)
    running = asyncio.ensure_future(notes.ids(session))
    await asyncio.sleep(0)
    with pytest.raises(ConcurrentSessionUseError):
        await session.close()
    await running
    for _ in range(200):
        if not database.pool.in_use:
            break
        await asyncio.sleep(0.01)
    assert database.pool.in_use == 0
    await notes.add(database, 1)


async def test_a_closed_session_is_refused(database, notes):
    async with database.session() as session:
        await notes.ids(session)
    with pytest.raises(DeerstoreError, match="closed"):
        await notes.ids(session)
    await session.close()


async def test_a_forgotten_session_is_reported_and_gives_its_connection_back(
    open_database, catalog, notes
):
    database = await open_database(pool_size=1, acquire_timeout=5)
    await database.execute(catalog["notes.create_table"])
    session = database.session()
    session.itself = session  # only the garbage collector finds it
    await notes.add(session, 1)
    del session
    with pytest.warns(ResourceWarning, match="session was not closed"):
        gc.collect()
    assert await notes.ids(database) == []
    await notes.add(database, 1)


async def test_a_forgotten_session_gives_its_connection_back_where_warnings_are_errors(
    open_database, catalog, notes, monkeypatch
):
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    database = await open_database(pool_size=1, acquire_timeout=5)
    await database.execute(catalog["notes.create_table"])
    session = database.session()
    await notes.add(session, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del session
    await notes.add(database, 1)


async def test_atomic_is_a_transaction_on_a_database_and_a_savepoint_on_a_session(database, notes):
    async def broken(executor, number: int) -> None:
        async with executor.atomic() as unit:
            await notes.add(unit, number)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken(database, 1)
    async with database.atomic() as unit:
        await notes.add(unit, 2)
    async with database.session() as session:
        await notes.add(session, 3)
        with pytest.raises(ZeroDivisionError):
            await broken(session, 4)
        await session.commit()
    assert await notes.ids(database) == [2, 3]


async def test_everything_works_on_one_connection(open_database, catalog, notes):
    database = await open_database(pool_size=1)
    await database.execute(catalog["notes.create_table"])

    async def unit(number: int) -> None:
        async with database.transaction() as session:
            await notes.add(session, number)
            await notes.ids(session)

    await asyncio.gather(
        *(unit(number) for number in range(1, 11)),
        *(notes.add(database, number) for number in range(11, 21)),
        *(notes.ids(database) for _ in range(10)),
    )
    assert await notes.ids(database) == list(range(1, 21))
    assert database.pool.in_use == 0
