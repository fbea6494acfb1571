"""Threads found by metadata: JSON's types, whatever lies in the table."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerstore.errors import InvalidMetadataFilterError, InvalidValueError
from deerstore.repositories import ThreadMetaCreate, build_thread_meta_repository
from deerstore.repositories.metadata_filters import metadata_filters
from tests.repositories.test_threads import DAY, INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database
    from deerstore.repositories import ThreadMetaRepository

#: What may stand behind a key in a table, as JSON text.
STORED = [
    "1",
    "1.0",
    "1e0",
    "10e-1",
    '"1"',
    '"1.0"',
    "true",
    '"true"',
    "false",
    "null",
    '"null"',
    '""',
    "0",
    "-0",
    "-0.0",
    "0.0",
    "-1",
    "2",
    "1.5",
    "15e-1",
    "0.1",
    "0.30000000000000004",
    "[1]",
    "[]",
    "{}",
    '{"k": 1}',
    str(2**53),
    str(2**53 + 1),
    str(2**63 - 1),
    str(2**63),
    str(-(2**63)),
    "9.223372036854775807e18",
    "9.223372036854775808e18",
    "9223372036854775808.0",
    str(10**20),
    str(10**20 + 1),
    "1e20",
    "1E+20",
    "1" + "0" * 300,
    "1e300",
    "1e308",
    "1.7976931348623157e308",
    "1.7976931348623157E+308",
    "5e-324",
    "1.1378748256417181e-302",
    "1e400",
    "-1e400",
    "1" + "0" * 400,
    "1e99999999999",
    "1e-400",
    '"a"',
    '"A"',
    '"a "',
    '" a"',
    '"á"',
    '"a\\u0301"',
    '"\\u00e1"',
    '"ß"',
    '"ss"',
    '"\\ud83d\\ude00"',
    '"😀"',
    '"a\\u0000"',
    '"a\\u0000b"',
    '"\\\\u0000"',
    '"a\\\\"',
    '"\\ufffd"',
    '"\\uFFFD"',
    '"\\"q\\" \'s\' %s %% :p ? \\\\ /"',
    '"line\\nbreak\\ttab"',
    json.dumps("x" * 127),
    json.dumps("x" * 128),
    json.dumps("x" * 129),
    json.dumps("x" * 128 + "y"),
    json.dumps("x" * 128 + " "),
    json.dumps("é" * 5_000),
    json.dumps("é" * 5_000 + "e"),
    json.dumps("x" * 64 + ":" + "0" * 64),
]

#: What may be asked for.
ASKED: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    0.0,
    -0.0,
    1.0,
    1.5,
    0.1,
    0.1 + 0.2,
    2**53,
    2**53 + 1,
    float(2**53),
    2**63 - 1,
    -(2**63),
    9.223372036854775808e18,
    -9.223372036854775808e18,
    1e20,
    float(10**20),
    1e300,
    1e308,
    1.7976931348623157e308,
    5e-324,
    1.1378748256417181e-302,
    "1",
    "1.0",
    "true",
    "null",
    "",
    "a",
    "A",
    "a ",
    " a",
    "á",
    "a\u0301",
    "ß",
    "ss",
    "😀",
    "\\u0000",
    "a\\",
    "\ufffd",
    "\"q\" 's' %s %% :p ? \\ /",
    "line\nbreak\ttab",
    "[1]",
    "{}",
    "x" * 127,
    "x" * 128,
    "x" * 129,
    "x" * 128 + "y",
    "x" * 128 + " ",
    "é" * 5_000,
    "é" * 5_000 + "e",
    "x" * 64 + ":" + "0" * 64,
]


class _Integer(int):
    """A number that was written as an integer."""


def equal(stored: Any, asked: Any) -> bool:
    """The contract's equality over what Python's parser read."""
    if asked is None or isinstance(asked, bool):
        return stored is asked
    if isinstance(asked, int):
        return isinstance(stored, _Integer) and stored == asked
    if isinstance(asked, float):
        return isinstance(stored, _Integer | float) and stored == asked
    return isinstance(stored, str) and stored == asked


def read(text: str) -> Any:
    return json.loads(text, parse_int=_Integer)


@pytest.fixture
def threads(database: Database) -> ThreadMetaRepository:
    return build_thread_meta_repository(database)


async def found(threads: ThreadMetaRepository, **metadata: Any) -> set[str]:
    return {each.thread_id for each in await threads.search_threads(metadata=metadata, limit=1_000)}


async def test_every_stored_value_against_every_filter(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    for n, stored in enumerate(STORED):
        raw_sql(INSERT, str(n), None, f'{{"x": 0, "k": {stored}}}', DAY, DAY)
    raw_sql(INSERT, "missing", None, '{"x": 0}', DAY, DAY)
    assert len(await threads.search_threads(limit=1_000)) == len(STORED) + 1
    wrong = []
    for asked in ASKED:
        expected = {str(n) for n, stored in enumerate(STORED) if equal(read(stored), asked)}
        for filters in ({"k": asked}, {"k": asked, "x": 0}):
            got = await found(threads, **filters)
            if got != expected:
                diff = [STORED[int(n)][:40] for n in sorted(got ^ expected)]
                wrong.append(f"{str(asked)[:40]!r} {type(asked).__name__} {filters.keys()}: {diff}")
    assert wrong == []


async def test_a_filter_is_an_and_of_all_its_keys(threads: ThreadMetaRepository) -> None:
    for n in range(60):
        metadata = {"two": n % 2, "three": str(n % 3), "five": n % 5 == 0, "n": n / 2}
        await threads.create_thread_meta(ThreadMetaCreate(thread_id=str(n), metadata=metadata))
    assert await found(threads, two=0, three="0", five=True) == {"0", "30"}
    assert await found(threads, five=True, n=15.0) == {"30"}
    assert await found(threads, two=1, three=0) == set()
    assert await found(threads, two=0, missing=None) == set()
    assert len(await found(threads)) == 60


async def test_paging_happens_after_the_match(threads: ThreadMetaRepository) -> None:
    for n in range(40):
        metadata = {"even": n % 2 == 0, "k": 1}
        await threads.create_thread_meta(ThreadMetaCreate(thread_id=f"{n:02}", metadata=metadata))
    for order in ("created", "recent"):
        pages = [
            [
                each.thread_id
                for each in await threads.search_threads(
                    metadata={"even": True, "k": 1}, limit=7, offset=offset, order=order
                )
            ]
            for offset in range(0, 28, 7)
        ]
        assert [each for page in pages for each in page] == [f"{n:02}" for n in range(38, -2, -2)]
        assert [len(page) for page in pages] == [7, 7, 6, 0]


@pytest.mark.parametrize("key", ["k", "K", "_", "-", "0", "a-b_C9", "x" * 64, "term", "null"])
async def test_a_key_is_one_key(threads: ThreadMetaRepository, key: str) -> None:
    await threads.create_thread_meta(ThreadMetaCreate(thread_id="t", metadata={key: 1}))
    await threads.create_thread_meta(
        ThreadMetaCreate(thread_id="other", metadata={f"{key}x"[-64:]: 1, key.swapcase() + "x": 1})
    )
    assert "t" in await found(threads, **{key: 1})
    assert await found(threads, **{key: 2}) == set()


async def test_only_keys_of_the_top_level_count(threads: ThreadMetaRepository) -> None:
    metadata = {"a": {"k": 1}, "b": [{"k": 1}], "a.k": 1, "$.k": 1, 'a"k': 1, "é": 1, "": 1}
    await threads.create_thread_meta(ThreadMetaCreate(thread_id="t", metadata=metadata))
    assert await found(threads, k=1) == set()
    assert await found(threads, a=1) == set()


@pytest.mark.parametrize(
    "stored",
    ["null", "[]", "[1]", '["k"]', '[{"k": 1}]', '"k"', "1", "true", "{}", '{"k": {"k": 1}}'],
)
async def test_what_is_no_flat_object_matches_nothing(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any], stored: str
) -> None:
    raw_sql(INSERT, "t", None, stored, DAY, DAY)
    for key in ("k", "0", "1"):
        for asked in (None, 1, "k", True):
            assert await found(threads, **{key: asked}) == set()
    assert len(await threads.search_threads(order="recent")) == 1


async def test_the_last_of_equal_keys_counts_as_in_python(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    raw_sql(INSERT, "two", None, '{"k": 1, "a": 5, "k": "x"}', DAY, DAY)
    raw_sql(INSERT, "three", None, '{"k": 1, "k": null, "k": 2, "deerflow_pinned": true}', DAY, DAY)
    raw_sql(INSERT, "list", None, '{"k": 1, "k": [1]}', DAY, DAY)
    assert await found(threads, k=1) == set()
    assert await found(threads, k="x", a=5) == {"two"}
    assert await found(threads, k=2) == {"three"}
    assert (await threads.search_threads(order="recent"))[0].thread_id == "three"


@pytest.mark.engines("sqlite", "mysql", why="a json column of PostgreSQL holds JSON only")
async def test_text_that_is_not_json_fails_nothing_and_nan_spoils_only_itself(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    for n, stored in enumerate(["", "{", "nope", '{"k": 1', '{"k": 1}}', "'", "\\", "NaN"]):
        raw_sql(INSERT, f"broken{n}", None, stored, DAY, DAY)
    raw_sql(INSERT, "nan", None, '{"k": 1, "n": NaN, "s": "NaN"}', DAY, DAY)
    raw_sql(INSERT, "inf", None, '{"n":-Infinity,"k":1,"l":[NaN,Infinity, NaN]}', DAY, DAY)
    assert await found(threads, k=1) == {"nan", "inf"}
    assert await found(threads, k=1, s="NaN") == {"nan"}
    assert await found(threads, n=None) == set()
    assert await found(threads, n=0.0) == set()
    assert await found(threads, l=None) == set()
    listed = await threads.search_threads(order="recent", limit=1_000)
    assert len(listed) == 10
    (nan,) = [each for each in listed if each.thread_id == "nan"]
    assert math.isnan(nan.metadata["n"])


async def test_odd_escapes_spoil_only_their_own_string(
    threads: ThreadMetaRepository, raw_sql: Callable[..., Any]
) -> None:
    for n, odd in enumerate(
        ["\\u0000", "\\ud800", "\\udc00 x", "\\ud83d\\ud83d\\ude00", "\\uDFFF"]
    ):
        raw_sql(INSERT, f"t{n}", None, f'{{"odd": "a{odd}b", "k": 1, "{odd}": 2}}', DAY, DAY)
    assert len(await found(threads, k=1)) == 5
    for asked in ("a", "ab", "a\ufffdb", "a\ufffd\ufffdb", "a\\u0000b", "a😀b", "a xb"):
        assert await found(threads, odd=asked) == set()
    listed = {each.thread_id: each.metadata["odd"] for each in await threads.search_threads()}
    assert listed["t0"] == "a\x00b"
    assert listed["t3"] == "a\ud83d😀b"


# -- refused filters -----------------------------------------------------------------------------

BAD: list[tuple[Any, Any]] = [
    ("", 1),
    ("é", 1),
    ("a b", 1),
    ("a.b", 1),
    ("k\n", 1),
    ("x" * 65, 1),
    ("k'; DROP TABLE threads_meta; --", 1),
    ("k\x00", 1),
    (1, 1),
    (None, 1),
    ("k", 2**63),
    ("k", -(2**63) - 1),
    ("k", math.nan),
    ("k", math.inf),
    ("k", [1]),
    ("k", {"a": 1}),
    ("k", b"x"),
    ("k", object()),
    ("k", "a\x00"),
    ("k", "\ud800"),
]


@pytest.mark.parametrize(("key", "value"), BAD)
async def test_a_bad_filter_is_skipped_with_a_warning_in_ascii(
    threads: ThreadMetaRepository, caplog: pytest.LogCaptureFixture, key: Any, value: Any
) -> None:
    for n in (1, 2):
        await threads.create_thread_meta(
            ThreadMetaCreate(thread_id=f"t{n}", metadata={"good": n, "k": n})
        )
    with caplog.at_level(logging.WARNING, "deerstore"):
        matching = await threads.search_threads(metadata={key: value, "good": 1})
    assert [each.thread_id for each in matching] == ["t1"]
    (record,) = caplog.records
    assert record.name.startswith("deerstore")
    assert record.getMessage().isascii()
    assert ascii(key)[:60] in record.getMessage()
    with pytest.raises(InvalidMetadataFilterError) as refused:
        await threads.search_threads(metadata={key: value})
    assert str(refused.value).isascii()
    assert ascii(key)[:60] in str(refused.value)


def test_a_refused_filter_names_every_key() -> None:
    with pytest.raises(InvalidMetadataFilterError, match=r"'a b'.*'\\xe9'"):
        metadata_filters({"a b": 1, "é": 2})


def test_no_filter_is_no_error() -> None:
    assert metadata_filters({}) == metadata_filters(None) == []


@pytest.mark.parametrize("metadata", [[], "k", 1])
async def test_a_filter_is_a_mapping(threads: ThreadMetaRepository, metadata: Any) -> None:
    with pytest.raises(InvalidValueError, match="metadata"):
        await threads.search_threads(metadata=metadata)


# -- any values ----------------------------------------------------------------------------------

_text = st.text(max_size=200)
_scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    stored=st.lists(st.fixed_dictionaries({"k": _scalar, "j": _scalar}), min_size=1, max_size=8),
    data=st.data(),
)
async def test_any_scalars_match_as_in_json(
    threads: ThreadMetaRepository, stored: list[dict[str, Any]], data: st.DataObject
) -> None:
    for each in await threads.search_threads(limit=1_000):
        await threads.delete_thread(each.thread_id)
    kept = []
    for n, metadata in enumerate(stored):
        try:
            await threads.create_thread_meta(ThreadMetaCreate(thread_id=str(n), metadata=metadata))
        except InvalidValueError:
            continue
        kept.append((str(n), read(json.dumps(metadata))))
    for _, metadata in kept:
        asked = {"k": metadata["k"], "j": data.draw(st.sampled_from([m["j"] for _, m in kept]))}
        asked = {
            key: int(value) if isinstance(value, _Integer) else value
            for key, value in asked.items()
        }
        expected = {
            name for name, m in kept if all(equal(m[key], value) for key, value in asked.items())
        }
        assert await found(threads, **asked) == expected
