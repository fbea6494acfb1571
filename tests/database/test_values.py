"""Values go in and come out alike on every engine."""

from __future__ import annotations

import math
import sqlite3
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest

from deerstore.errors import InvalidValueError

NOTHING = dict.fromkeys(("words", "amount", "ratio", "flag", "moment", "document", "raw"))


async def through(database, catalog, **values):
    """What a read gives after a write."""
    await database.execute(catalog["kinds.put"], **{"id": 1, **NOTHING, **values})
    row = await database.fetch_one(catalog["kinds.get"], id=1)
    (name,) = values
    return row[name]


WORDS = [
    "",
    "plain",
    'it\'s "quoted" `here`',
    "back\\slash \\' \\0 \\n",
    "100% %s %% %(x)s",
    "$1 ?1 :name",
    "line\nfeed\ttab\r",
    "\x1a\x7f\x01",
    "grün 漢字 😀 \u2028",
    "trailing  ",
    "x" * 100_000,
]


@pytest.mark.parametrize("words", WORDS, ids=range(len(WORDS)))
async def test_text_comes_back_as_it_was(database, catalog, words):
    assert await through(database, catalog, words=words) == words


@pytest.mark.parametrize("words", ["a\0b", "lone \ud83d"])
async def test_text_that_no_two_engines_agree_on_is_refused(database, catalog, words):
    with pytest.raises(InvalidValueError, match="words"):
        await through(database, catalog, words=words)


async def test_a_uuid_becomes_its_canonical_string(database, catalog):
    value = uuid.uuid4()
    assert await through(database, catalog, words=value) == str(value)


@pytest.mark.parametrize("amount", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
async def test_whole_numbers_have_64_bits(database, catalog, amount):
    assert await through(database, catalog, amount=amount) == amount


async def test_a_sum_of_whole_numbers_is_an_int(database, catalog):
    for number in (1, 2, 3):
        await database.execute(
            catalog["kinds.put"], **{**NOTHING, "id": number, "amount": 2**61 if number < 3 else 1}
        )
    for name in ("kinds.total", "kinds.declared_total"):
        total = await database.fetch_value(catalog[name])
        assert (total, type(total)) == (2**62 + 1, int)


@pytest.mark.parametrize("ratio", [0.0, 1.5, -1e-300, 1.7976931348623157e308, 0.1 + 0.2, 3])
async def test_floats_keep_every_bit(database, catalog, ratio):
    found = await through(database, catalog, ratio=ratio)
    assert (found, type(found)) == (ratio, float)


@pytest.mark.parametrize("ratio", [math.nan, math.inf])
async def test_floats_that_are_no_numbers_are_refused(database, catalog, ratio):
    with pytest.raises(InvalidValueError, match="ratio"):
        await through(database, catalog, ratio=ratio)


@pytest.mark.parametrize("flag", [True, False, None])
async def test_truth_values_are_bools(database, catalog, flag):
    assert await through(database, catalog, flag=flag) is flag


INSTANT = datetime(2026, 3, 29, 1, 30, 15, 120, tzinfo=UTC)
MOMENTS = [
    INSTANT,
    INSTANT.replace(microsecond=0),
    INSTANT.astimezone(timezone(timedelta(hours=5, minutes=30))),
    INSTANT.astimezone(timezone(-timedelta(hours=11))),
    INSTANT.replace(tzinfo=None),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=range(len(MOMENTS)))
async def test_an_instant_stays_the_same_instant_and_comes_out_in_utc(database, catalog, moment):
    wanted = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    found = await through(database, catalog, moment=moment)
    assert (found, found.tzinfo) == (wanted, UTC)
    assert await database.fetch_tuples(catalog["kinds.moments"], {"moment": moment}) == [(1,)]


WRITTEN_TIMES = {
    "2026-03-29 01:30:15": INSTANT.replace(microsecond=0),
    "2026-03-29T01:30:15Z": INSTANT.replace(microsecond=0),
    "2026-03-29 07:00:15.000120+05:30": INSTANT,
    "2026-03-29": INSTANT.replace(hour=0, minute=0, second=0, microsecond=0),
    "2026-03-29T01": INSTANT.replace(minute=0, second=0, microsecond=0),
    "no time": None,
    "": None,
}


@pytest.mark.engines("sqlite", why="the servers store times as times")
@pytest.mark.parametrize("written", WRITTEN_TIMES, ids=range(len(WRITTEN_TIMES)))
async def test_a_time_that_another_writer_stored_is_in_utc(database, catalog, written):
    await database.execute(catalog["kinds.put"], **{**NOTHING, "id": 1})
    with sqlite3.connect(database.config.targets.sqlite_path()) as writer:
        writer.execute("UPDATE kinds SET moment = ?", (written,))
    writer.close()
    found = (await database.fetch_one(catalog["kinds.get"], id=1))["moment"]
    assert (found, found and found.tzinfo) == (WRITTEN_TIMES[written], found and UTC)


DOCUMENTS = [
    {"a": [1, 2.5, None, True], "ü": "😀"},
    [],
    "text",
    "null",
    0,
    False,
    {"deep": {"x" * 100: ["\0", "\ud800"]}},
    2**70,
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
async def test_documents_come_back_with_their_types(database, catalog, document):
    found = await through(database, catalog, document=document)
    assert (found, type(found)) == (document, type(document))


@pytest.mark.parametrize(
    "raw", [b"", bytes(range(256)), b"%s 100% ' \\ \0 \xff", b"\x00" * 70_000], ids=range(4)
)
async def test_bytes_come_back_as_they_were(database, catalog, raw):
    assert await through(database, catalog, raw=raw) == raw


async def test_lists_of_every_type_find_what_they_name(database, catalog):
    await database.execute(catalog["kinds.put"], **{**NOTHING, "id": 1, "words": "ü'\"\\%s"})
    await database.execute(catalog["kinds.put"], **{**NOTHING, "id": 2, "amount": 2**60})
    await database.execute(catalog["kinds.put"], **{**NOTHING, "id": 3, "moment": INSTANT})
    await database.execute(catalog["kinds.put"], **{**NOTHING, "id": 4, "words": "other"})
    found = await database.fetch_tuples(
        catalog["kinds.lists"],
        {"words": ["ü'\"\\%s", "x"], "amounts": [2**60], "moments": [INSTANT]},
    )
    assert found == [(1,), (2,), (3,)]


async def test_the_execution_of_many_binds_like_the_execution_of_one(database, catalog):
    rows = [
        {"id": 1, "words": "100% 'a' \\", "amount": 1, "ratio": 1.5, "flag": True,
         "moment": INSTANT, "document": {"a": "%s"}, "raw": b"\0'\\%"},
        {**NOTHING, "id": 2},
    ]  # fmt: skip
    await database.execute_many(catalog["kinds.put"], rows)
    for row in rows:
        found = await database.fetch_one(catalog["kinds.get"], id=row["id"])
        assert {"id": row["id"], **found} == row
