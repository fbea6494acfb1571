"""JSON text: what is accepted, what it becomes, and what the refusal names."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerstore import json_text
from deerstore.errors import InvalidValueError
from deerstore.repositories.rows import stored_value


class Colour(StrEnum):
    RED = "red"


def _has_surrogate_pair(value: Any) -> bool:
    """A high surrogate right before a low one is JSON's spelling of one character, not two."""
    if isinstance(value, str):
        return re.search("[\ud800-\udbff][\udc00-\udfff]", value) is not None
    if isinstance(value, dict):
        return any(_has_surrogate_pair(part) for item in value.items() for part in item)
    return isinstance(value, list) and any(_has_surrogate_pair(part) for part in value)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, NaN equal to NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


any_text = st.text(st.characters(codec=None), max_size=20)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: not _has_surrogate_pair(value))


class TestExactJson:
    @given(json_like)
    def test_any_json_like_value_keeps_its_value_and_type(self, value: Any) -> None:
        stored = json_text.encode_exact_json("content", value, allow_nan=True)
        assert stored.isascii()
        assert same(json_text.decode_json(stored), value)

    def test_what_is_not_json_becomes_its_string(self) -> None:
        moment = datetime(2026, 1, 2, 3, 4, 5)
        stored = json_text.encode_exact_json("content", {"at": moment, "t": (1,)}, allow_nan=True)
        assert json_text.decode_json(stored) == {"at": "2026-01-02 03:04:05", "t": [1]}

    def test_keys_become_strings(self) -> None:
        value = {(1, 2): "a", None: "b", True: "c", 7: "d"}
        stored = json_text.encode_exact_json("content", value, allow_nan=True)
        assert json_text.decode_json(stored) == {"(1, 2)": "a", "null": "b", "true": "c", "7": "d"}

    def test_an_object_that_cannot_be_shown_does_not_fail(self) -> None:
        class Broken:
            def __str__(self) -> str:
                raise RuntimeError("no words")

        stored = json_text.encode_exact_json("content", [Broken()], allow_nan=True)
        assert json_text.decode_json(stored) == ["<Broken>"]

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_a_number_beyond_json_is_refused_with_its_path(self, number: float) -> None:
        with pytest.raises(InvalidValueError, match=r"kwargs\.a\[1\]") as caught:
            json_text.encode_exact_json("kwargs", {"a": [1, number]}, allow_nan=False)
        assert caught.value.field == "kwargs.a[1]"

    @pytest.mark.parametrize("allow_nan", [True, False])
    def test_a_number_that_python_does_not_write_is_refused_with_its_path(
        self, allow_nan: bool
    ) -> None:
        with pytest.raises(InvalidValueError, match=r"content\.a\[1\] .* digits") as caught:
            json_text.encode_exact_json("content", {"a": [1, 10**5000]}, allow_nan=allow_nan)
        assert caught.value.field == "content.a[1]"

    def test_a_cycle_is_refused(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(InvalidValueError, match="contains itself"):
            json_text.encode_exact_json("content", loop, allow_nan=True)


class TestObject:
    @given(
        st.dictionaries(
            st.text(st.characters(exclude_characters="\0", codec="utf-8")),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
                lambda inner: st.lists(inner, max_size=3),
                max_leaves=5,
            ),
            max_size=5,
        )
    )
    def test_a_strict_object_keeps_its_value_and_type(self, value: dict[str, Any]) -> None:
        assert same(json_text.stored_object(json_text.encode_object("metadata", value)), value)

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ({"a": {"b": [1, math.nan]}}, "metadata.a.b[1]"),
            ({"a": math.inf}, "metadata.a"),
            ({"a": "x\0"}, "metadata.a"),
            ({"a": "\ud800"}, "metadata.a"),
            ({"a\0": 1}, "metadata"),
            ({"a": {1: 2}}, "metadata.a"),
            ({"a": (1, 2)}, "metadata.a"),
            ({"a": {1, 2}}, "metadata.a"),
            ({"a": datetime(2026, 1, 1)}, "metadata.a"),
            ({"ä": [b"x"]}, "metadata.\\xe4[0]"),
            ({"a": [1.5, 10**5000]}, "metadata.a[1]"),
            ({"a": -(10**5000)}, "metadata.a"),
        ],
    )
    def test_what_is_not_strict_json_is_refused_with_its_path(
        self, value: dict[str, Any], path: str
    ) -> None:
        with pytest.raises(InvalidValueError) as caught:
            json_text.encode_object("metadata", value)
        assert caught.value.field == path
        assert str(caught.value).startswith(f"{path} ")

    @pytest.mark.parametrize("value", [[], "x", None, 1])
    def test_what_is_not_an_object_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match="metadata must be a dict"):
            json_text.encode_object("metadata", value)

    def test_a_cycle_is_refused(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        with pytest.raises(InvalidValueError, match="contains itself"):
            json_text.encode_object("metadata", loop)

    @pytest.mark.parametrize("stored", [None, "null", "[1]", "not json", "1", "", b"\xff", 3])
    def test_a_foreign_value_reads_as_an_empty_object(self, stored: Any) -> None:
        assert json_text.stored_object(stored) == {}

    def test_a_foreign_nan_is_kept(self) -> None:
        assert math.isnan(json_text.stored_object('{"a": NaN}')["a"])


def both_ways(value: Any) -> list[str]:
    """The texts of an exact value, once it is seen that the copy is what its text reads as."""
    text, copy = json_text.encode_exact_json_and_copy("content", value, allow_nan=True)
    assert same(json_text.decode_json(text), copy)
    return [text, json_text.encode_exact_json("content", value, allow_nan=True)]


class Level(Enum):
    LOW = 1


class Number(IntEnum):
    ONE = 1


class Name(str):
    __slots__ = ()


class Bag(dict[str, Any]):
    pass


@dataclass
class Point:
    x: int = 1


ODD = [
    Level.LOW,
    Number.ONE,
    Colour.RED,
    Name("n"),
    Bag(a=1),
    Point(),
    uuid.UUID(int=7),
    datetime(2026, 1, 2, 3, 4, 5),
    (1, 2),
    b"x",
    2**64,
    -(2**63) - 1,
    1e16,
    -0.0,
    math.nan,
    "\ud800",
    "\0",
    "\\u0000",
    "é\u2028\x7f",
    {1: 2},
    {None: 1},
    {"\ud800": 1},
    1e300,
    [[]],
    {"": {}},
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("place", [lambda x: x, lambda x: {"a": x, "b": None}, lambda x: [[x]]])
def test_whoever_writes_the_text_it_reads_the_same(odd: Any, place: Callable[[Any], Any]) -> None:
    quick, plain = both_ways(place(odd))
    assert same(json_text.decode_json(quick), json_text.decode_json(plain))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_copy_of_a_strict_object_is_taken_or_refused_alike(odd: Any) -> None:
    for value in ({"a": odd}, {"a": [odd, None]}):
        try:
            text = json_text.encode_object("metadata", value)
        except InvalidValueError as error:
            with pytest.raises(InvalidValueError, match=re.escape(str(error))):
                json_text.encode_object_and_copy("metadata", value)
        else:
            found, copy = json_text.encode_object_and_copy("metadata", value)
            assert found == text
            assert same(json_text.decode_json(text), copy)


def test_a_copy_shares_nothing_that_can_be_changed() -> None:
    value: dict[str, Any] = {"a": {"b": [1]}, "c": 1}
    for _, copy in (
        json_text.encode_object_and_copy("metadata", value),
        json_text.encode_exact_json_and_copy("content", value, allow_nan=True),
    ):
        copy["a"]["b"].append(2)
        copy["c"] = 3
    assert value == {"a": {"b": [1]}, "c": 1}


@pytest.mark.parametrize("place", [lambda x: {"a": x}, lambda x: {"a": {"b": [x, 1.5]}}])
def test_a_number_that_python_would_not_read_is_refused(place: Callable[[Any], Any]) -> None:
    most = place(10**4_299)
    assert json_text.decode_json(json_text.encode_object("metadata", most)) == most
    assert json_text.encode_object_and_copy("metadata", most)[1] == most
    for encode in (
        json_text.encode_object,
        json_text.encode_object_and_copy,
        partial(json_text.encode_exact_json, allow_nan=True),
        partial(json_text.encode_exact_json_and_copy, allow_nan=True),
    ):
        with pytest.raises(InvalidValueError, match="digits"):
            encode("metadata", place(10**4_300))


@pytest.mark.parametrize("depth", [200, 300, 900])
def test_depth_is_not_what_the_quick_way_ends_at(depth: int) -> None:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    text, _ = json_text.encode_exact_json_and_copy("content", value, allow_nan=True)
    assert text == "[" * (depth + 1) + "]" * (depth + 1)


def test_a_reader_need_not_have_as_much_stack_as_the_writer() -> None:
    value: dict[str, Any] = {}
    for _ in range(800):
        value = {"a": value}
    text = json_text.encode_exact_json("content", value, allow_nan=True)

    def far_down(frames: int, read: Callable[[str], Any]) -> Any:
        return far_down(frames - 1, read) if frames else read(text)

    for read in (json_text.decode_json, json_text.stored_object, stored_value):
        assert json_text.encode_exact_json("c", far_down(300, read), allow_nan=True) == text


def test_strict_json_text_is_strict() -> None:
    stored = json_text.encode_object("metadata", {"a": "é", "n": 10**20, "f": 1.0})
    assert stored == '{"a":"é","n":100000000000000000000,"f":1.0}'
    assert json.loads(stored) == {"a": "é", "n": 10**20, "f": 1.0}
