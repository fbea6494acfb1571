"""From a caller's values to a driver's: order, checks before any I/O, encoding, decoding."""

from __future__ import annotations

import enum
import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from unittest import mock

import pytest

from deerstore.errors import InvalidValueError
from deerstore.queries import Codec

ONE = "-- name: q :exec\n-- param x: {type}\nDELETE FROM t WHERE a = :x"


def bound(load, kind, value, codec="postgres"):
    ((argument,),) = load(ONE.format(type=kind))["q"].compiled(codec).bind({"x": value})
    return argument


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("text", "é", "é"),
        ("text", Color.RED, "red"),
        ("text", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("text?", None, None),
        ("int", 2**63 - 1, 2**63 - 1),
        ("int", Level.HIGH, 3),
        ("float", 1.5, 1.5),
        ("float", 2, 2.0),
        ("bool", True, True),
        ("bytes", b"a", b"a"),
        ("bytes", bytearray(b"a"), b"a"),
        ("timestamp", NOON, NOON),
        ("timestamp", NOON.replace(tzinfo=None), NOON),
        ("timestamp", NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), NOON),
        ("json", {"a": [1]}, {"a": [1]}),
        ("json?", None, None),
        ("text[]", ("a", "b"), ["a", "b"]),
        ("text[]", [Color.RED, uuid.UUID(int=1)], ["red", str(uuid.UUID(int=1))]),
        ("text[]", [], []),
        ("text[]?", None, None),
        ("text?[]", ["a", None], ["a", None]),
        ("float[]", [1, 2.5], [1.0, 2.5]),
        ("timestamp[]", [NOON.replace(tzinfo=None)], [NOON]),
        ("timestamp[]", [NOON, NOON.astimezone(timezone(timedelta(hours=1))), NOON], [NOON] * 3),
        ("text[]", ["red", Color.RED, "red"], ["red"] * 3),
        ("int[]", [3, Level.HIGH, 3], [3] * 3),
        ("float[]", [1.0, 1, 1.0], [1.0] * 3),
        ("float[]", [1e308] * 3, [1e308] * 3),
        ("bool[]", [True, False], [True, False]),
        ("bytes[]", [b"a", bytearray(b"a"), b"a"], [b"a"] * 3),
        ("text?[]", [None], [None]),
        ("text?[]", [None, Color.RED, "é", None], [None, "red", "é", None]),
        ("timestamp?[]", [None, NOON.replace(tzinfo=None)], [None, NOON]),
        ("int?[]", [None, 1], [None, 1]),
    ],
)
def test_values_arrive_as_the_exact_type(load, kind, value, expected):
    argument = bound(load, kind, value)
    assert argument == expected
    assert type(argument) is type(expected)
    items, expected_items = (
        (argument, expected) if isinstance(expected, list) else ([argument], [expected])
    )
    assert [type(item) for item in items] == [type(item) for item in expected_items]
    assert all(item.tzinfo is UTC for item in items if isinstance(item, datetime))


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("text", 1, "must be text, not int"),
        ("text", None, "must be text, not NoneType"),
        ("text", "a\x00b", r"contains U\+0000"),
        ("text", "\ud800", "lone surrogate"),
        ("int", "1", "must be int, not str"),
        ("int", True, "must be int, not bool"),
        ("int", 1.0, "must be int, not float"),
        ("int", 2**63, "64 bits"),
        ("int", -(2**63) - 1, "64 bits"),
        ("float", float("nan"), "NaN or infinite"),
        ("float", float("inf"), "NaN or infinite"),
        ("float", True, "must be float, not bool"),
        ("float", 10**400, "too large"),
        ("bool", 1, "must be bool, not int"),
        ("timestamp", "2026-01-31T12:00:00Z", "must be timestamp, not str"),
        (
            "timestamp",
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
            "outside the years 1 to 9999",
        ),
        ("bytes", "a", "must be bytes, not str"),
        ("text[]", "abc", r"must be text\[\], not str"),
        ("text[]", {"a": 1}, r"must be text\[\], not dict"),
        ("text[]", None, r"must be text\[\], not NoneType"),
        ("text[]", ["a", None], "element that is None"),
        ("text[]", ["a", 1], r"must be text\[\], not int"),
        ("text[]", ["a\x00"], r"U\+0000"),
        ("text[]", ["a\x00"] * 3, r"U\+0000"),
        ("text[]", ["a", "\ud800", "b"], "lone surrogate"),
        ("text[]", ["a", mock.ANY, "a"], r"must be text\[\], not _ANY"),
        ("text?[]", [None, "a\x00"], r"U\+0000"),
        ("int[]", [2**63], "64 bits"),
        ("int[]", [1, -(2**63) - 1], "64 bits"),
        ("int[]", [1, True, 1], r"must be int\[\], not bool"),
        ("int[]", [1, 1.0, 1], r"must be int\[\], not float"),
        ("int?[]", [None, 2**63], "64 bits"),
        ("float[]", [float("nan")], "NaN"),
        ("float[]", [float("inf"), float("-inf")], "NaN or infinite"),
        ("float[]", [1.0, True], r"must be float\[\], not bool"),
        ("bool[]", [True, 1], r"must be bool\[\], not int"),
        ("timestamp[]", [NOON, "2026", NOON], r"must be timestamp\[\], not str"),
    ],
)
def test_wrong_values_are_refused_by_name_and_never_shown(load, kind, value, why):
    with pytest.raises(InvalidValueError, match=rf"q: parameter 'x' .*{why}") as caught:
        bound(load, kind, value)
    assert caught.value.field == "x"


def test_a_refused_value_is_refused_again_after_a_good_one(load):
    bind = load(ONE.format(type="int"))["q"].compiled("sqlite").bind
    assert bind({"x": 1}) == ((1,),)
    for value in (2**63, True, None, "1"):
        with pytest.raises(InvalidValueError):
            bind({"x": value})
    assert bind({"x": 2}) == ((2,),)


TWO = """
-- name: q :exec
-- param first: text
-- param second: text
-- variant both: off | on
DELETE FROM t WHERE a = :first /*[ both=on */ AND b = :second /*]*/
"""


def test_missing_and_unknown_parameters_are_named(load):
    query = load(TWO)["q"]
    both = query.variant(both=True).compiled("sqlite").bind
    with pytest.raises(InvalidValueError, match=r"^q: missing parameters 'first', 'second'$"):
        both({})
    with pytest.raises(InvalidValueError, match=r"^q: missing parameter 'second'$"):
        both({"first": "a"})
    with pytest.raises(
        InvalidValueError, match=r"unknown parameter 'secnd'; did you mean 'second'"
    ):
        both({"first": "a", "secnd": "b"})
    with pytest.raises(InvalidValueError, match="unknown parameter 'more'"):
        both({"first": "a", "second": "b", "more": "c"})


def test_a_parameter_of_another_variant_is_not_needed_and_may_be_given(load):
    query = load(TWO)["q"].compiled("sqlite")
    assert [parameter.name for parameter in query.params] == ["first"]
    assert query.bind({"first": "a"}) == (("a",),)
    assert query.bind({"first": "a", "second": "b"}) == (("a",),)


def test_no_parameters_bind_to_an_empty_tuple(load):
    query = load("-- name: q :value\nSELECT 1")["q"].compiled("mysql")
    assert query.bind({}) == ((),)
    with pytest.raises(InvalidValueError, match="unknown parameter 'x'"):
        query.bind({"x": 1})


CODEC = Codec(
    "sqlite",
    encoders={
        "timestamp": lambda value: value.isoformat(" "),
        "json": json.dumps,
        "text[]": json.dumps,
        "text": None,
    },
    decoders={"timestamp": datetime.fromisoformat, "json": json.loads, "bool": bool, "text": None},
)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("timestamp", NOON, "2026-01-31 12:00:00+00:00"),
        ("timestamp?", None, None),
        ("json", {"a": 1}, '{"a": 1}'),
        ("json", None, "null"),
        ("json?", None, None),
        ("json?", [], "[]"),
        ("text", "a", "a"),
        ("text[]", ["a", "b"], '["a", "b"]'),
        ("timestamp[]", [NOON], ["2026-01-31 12:00:00+00:00"]),
        ("json[]", [None, 1], ["null", "1"]),
        ("json?[]", [None, 1], [None, "1"]),
    ],
)
def test_the_codec_encodes_what_was_checked(load, kind, value, expected):
    assert bound(load, kind, value, CODEC) == expected
    assert bound(load, kind, value, CODEC) == expected


EACH = """
-- name: q :affected
-- param ids: text[]
-- param times: timestamp[]
-- param owner: text?
-- step all
DELETE FROM t WHERE id IN (SELECT value FROM json_each(:ids));
-- step add :each
INSERT INTO t (id, at, owner, id2) VALUES (:ids, :times, :owner, :ids);
"""


def test_an_each_step_takes_the_elements_and_the_others_the_list(load):
    bind = load(sqlite=EACH)["q"].compiled(CODEC).bind
    at = "2026-01-31 12:00:00+00:00"
    assert bind({"ids": ["a", "b"], "times": [NOON, NOON], "owner": None}) == (
        ('["a", "b"]',),
        [("a", at, None, "a"), ("b", at, None, "b")],
    )
    assert bind({"ids": [], "times": [], "owner": "o"}) == (("[]",), [])
    with pytest.raises(InvalidValueError, match="differ in length"):
        bind({"ids": ["a"], "times": [], "owner": None})


@pytest.mark.parametrize("codec", ["sqlite", "postgres", "mysql"])
@pytest.mark.parametrize("kind", ["text[]", "text[]?", "text?[]", "json[]"])
def test_what_is_bound_is_not_the_callers_list(load, kind, codec):
    query = load(ONE.format(type=kind))["q"]
    given = ["a", "b"]
    arguments = query.compiled(codec).bind({"x": given})
    given.append("c")
    assert arguments == query.compiled(codec).bind({"x": ["a", "b"]})


TWICE = """
-- name: q :affected
-- param ids: text[]?
-- step add :each
INSERT INTO t (id, name) VALUES (:ids, :ids);
"""


@pytest.mark.parametrize("ids", [None, [], ["a"], ["a", "b"]])
def test_an_each_step_may_name_its_only_list_twice(load, ids):
    bind = load(sqlite=TWICE)["q"].compiled(CODEC).bind
    assert bind({"ids": ids}) == ([(one, one) for one in ids or ()],)


CARRIED = """
-- name: q :exec
-- param ids: text[]
-- param times: timestamp[]
-- param notes: text[]?
-- param owner: text
-- step base -> base
SELECT 1;
-- step add :each
INSERT INTO t (id, at, note, n, owner) VALUES (:ids, :times, :notes, :base, :owner);
"""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_each_step_gets_its_rows_with_what_is_carried(load, count):
    query = load(sqlite=CARRIED)["q"].compiled(CODEC)
    ids = [f"r{number}" for number in range(count)]
    given = {"ids": ids, "times": [NOON] * count, "notes": ids, "owner": "o"}
    _, bound = query.bind(given)
    at = "2026-01-31 12:00:00+00:00"
    expected = [(one, at, one, 7, "o") for one in ids]
    ids[:] = ["\x00 is not looked at any more"]
    for _ in range(2):  # a call that is tried again fills again
        assert query.steps[1].fill(bound, {"base": 7}) == expected
    with pytest.raises(InvalidValueError, match="differ in length") as caught:
        query.bind({**given, "ids": ["a"] * (count + 1), "notes": ["a"] * (count + 1)})
    assert caught.value.field == "ids"


def test_a_list_that_is_none_gives_an_each_step_no_rows(load):
    query = load(sqlite=CARRIED)["q"].compiled(CODEC)
    _, bound = query.bind({"ids": [], "times": [], "notes": None, "owner": "o"})
    assert query.steps[1].fill(bound, {"base": 7}) == []


TIMES = """
-- name: q :exec
-- param first: timestamp?
-- param second: timestamp
-- param third: timestamp?
-- param fourth: timestamp
DELETE FROM t WHERE a = :first AND b = :second AND c = :third AND d = :fourth
"""


def test_one_moment_in_several_parameters_is_checked_by_each_of_their_rules(load):
    bind = load(TIMES)["q"].compiled(CODEC).bind
    at = "2026-01-31 12:00:00+00:00"
    naive, later = NOON.replace(tzinfo=None), NOON + timedelta(hours=1)
    for values, expected in (
        ((NOON, NOON, NOON, NOON), (at, at, at, at)),
        ((naive, naive, None, naive), (at, at, None, at)),
        ((None, NOON, later, NOON), (None, at, "2026-01-31 13:00:00+00:00", at)),
    ):
        given = dict(zip(("first", "second", "third", "fourth"), values, strict=True))
        assert bind(given) == (expected,)
    for name in ("second", "fourth"):
        wrong = {"first": None, "second": NOON, "third": None, "fourth": NOON, name: None}
        with pytest.raises(InvalidValueError, match="must be timestamp, not NoneType") as caught:
            bind(wrong)
        assert caught.value.field == name


def test_rows_are_decoded_by_their_declared_columns(load):
    query = load(
        "-- name: q :many\n-- column id: text\n-- column at: timestamp?\n-- column ok: bool\n"
        "SELECT id, at, ok FROM t"
    )["q"]
    compiled = query.compiled(CODEC)
    assert compiled.decoder([["a", "2026-01-31 12:00:00+00:00", 1]]) == [("a", NOON, True)]
    assert compiled.decode_rows([("a", None, 0), ["b", None, 1]]) == [
        ("a", None, False),
        ("b", None, True),
    ]
    plain = query.compiled("sqlite")
    assert plain.decoder is None
    assert plain.decode_rows([["a", None, 0]]) == [("a", None, 0)]


def test_nothing_that_was_given_is_kept(load):
    """A json parameter may bring any number of classes with it; none of them is kept for ever."""
    import gc
    import weakref

    bind = load(ONE.format(type="json"))["q"].compiled("sqlite").bind
    last = None
    for number in range(200):
        kind = type(f"Kind{number}", (), {})
        assert bind({"x": kind})[0][0] is kind
        value = kind()
        assert bind({"x": value}) == ((value,),)
        last = weakref.ref(kind)
    del kind, value
    gc.collect()
    assert last() is None
