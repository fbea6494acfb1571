"""The value rules: what is accepted, what it becomes, and what the refusal names."""

from __future__ import annotations

import json
import math
import re
import uuid
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerstore import values
from deerstore.errors import InvalidValueError


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
        stored = values.encode_exact_json("content", value, allow_nan=True)
        assert stored.isascii()
        assert same(values.decode_json(stored), value)

    def test_what_is_not_json_becomes_its_string(self) -> None:
        moment = datetime(2026, 1, 2, 3, 4, 5)
        stored = values.encode_exact_json("content", {"at": moment, "t": (1,)}, allow_nan=True)
        assert values.decode_json(stored) == {"at": "2026-01-02 03:04:05", "t": [1]}

    def test_keys_become_strings(self) -> None:
        value = {(1, 2): "a", None: "b", True: "c", 7: "d"}
        stored = values.encode_exact_json("content", value, allow_nan=True)
        assert values.decode_json(stored) == {"(1, 2)": "a", "null": "b", "true": "c", "7": "d"}

    def test_an_object_that_cannot_be_shown_does_not_fail(self) -> None:
        class Broken:
            def __str__(self) -> str:
                raise RuntimeError("no words")

        stored = values.encode_exact_json("content", [Broken()], allow_nan=True)
        assert values.decode_json(stored) == ["<Broken>"]

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_a_number_beyond_json_is_refused_with_its_path(self, number: float) -> None:
        with pytest.raises(InvalidValueError, match=r"kwargs\.a\[1\]") as caught:
            values.encode_exact_json("kwargs", {"a": [1, number]}, allow_nan=False)
        assert caught.value.field == "kwargs.a[1]"

    def test_a_cycle_is_refused(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(InvalidValueError, match="contains itself"):
            values.encode_exact_json("content", loop, allow_nan=True)


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
        assert same(values.stored_object(values.encode_object("metadata", value)), value)

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
        ],
    )
    def test_what_is_not_strict_json_is_refused_with_its_path(
        self, value: dict[str, Any], path: str
    ) -> None:
        with pytest.raises(InvalidValueError) as caught:
            values.encode_object("metadata", value)
        assert caught.value.field == path
        assert str(caught.value).startswith(f"{path} ")

    @pytest.mark.parametrize("value", [[], "x", None, 1])
    def test_what_is_not_an_object_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match="metadata must be a dict"):
            values.encode_object("metadata", value)

    def test_a_cycle_is_refused(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        with pytest.raises(InvalidValueError, match="contains itself"):
            values.encode_object("metadata", loop)

    @pytest.mark.parametrize("stored", [None, "null", "[1]", "not json", "1", "", b"\xff", 3])
    def test_a_foreign_value_reads_as_an_empty_object(self, stored: Any) -> None:
        assert values.stored_object(stored) == {}

    def test_a_foreign_nan_is_kept(self) -> None:
        assert math.isnan(values.stored_object('{"a": NaN}')["a"])


class TestText:
    def test_an_id_is_kept_code_point_by_code_point(self) -> None:
        for value in ("Ä ", "a\u0308", "", "x" * 64, "😀" * 64):
            assert values.identifier("run_id", value) == value

    def test_a_uuid_becomes_its_canonical_string(self) -> None:
        value = uuid.UUID("12345678123456781234567812345678")
        assert values.identifier("run_id", value) == "12345678-1234-5678-1234-567812345678"

    @pytest.mark.parametrize("value", ["x" * 65, "a\0", "\ud800", 1234, b"secret"])
    def test_a_bad_id_is_refused_by_name_and_without_its_value(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match=r"^run_id ") as caught:
            values.identifier("run_id", value)
        assert caught.value.field == "run_id"
        assert str(value) not in str(caught.value)

    def test_one_string_is_not_a_list_of_ids(self) -> None:
        with pytest.raises(InvalidValueError, match="run_ids must be a list"):
            values.identifiers("run_ids", "abc")

    def test_an_enum_becomes_its_string(self) -> None:
        assert type(values.text("status", Colour.RED)) is str
        assert values.choice("status", Colour.RED, ["red"]) == "red"

    def test_a_choice_lists_what_is_allowed(self) -> None:
        with pytest.raises(InvalidValueError, match="status must be one of: a, b"):
            values.choice("status", "c", ("a", "b"))

    def test_free_text_replaces_what_no_engine_agrees_on(self) -> None:
        assert values.free_text("error", "a\0b\ud800c😀") == "a\ufffdb\ufffdc😀"

    def test_a_summary_is_cut(self) -> None:
        assert values.summary("last_ai_message", "😀" * 2001) == "😀" * 2000

    def test_letter_case_of_an_email_folds(self) -> None:
        assert values.fold_email("Ä.B@Example.ORG") == "ä.b@example.org"


class TestNumbers:
    @pytest.mark.parametrize("value", [values.INT64_MIN, 0, values.INT64_MAX])
    def test_a_64_bit_number_is_kept(self, value: int) -> None:
        assert values.int64("total_tokens", value) == value

    @pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.0, "1", None])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match=r"^total_tokens "):
            values.int64("total_tokens", value)

    @pytest.mark.parametrize("value", [-1, True, 1.5, "1", None])
    def test_a_page_bound_is_a_number_of_at_least_zero(self, value: Any) -> None:
        assert values.page_bound("limit", 0) == 0
        with pytest.raises(InvalidValueError, match=r"^limit "):
            values.page_bound("limit", value)

    def test_a_number_is_not_a_boolean(self) -> None:
        with pytest.raises(InvalidValueError, match=r"^needs_setup "):
            values.boolean("needs_setup", 1)  # type: ignore[arg-type]


class TestTime:
    def test_an_offset_keeps_its_instant(self) -> None:
        zone = timezone(timedelta(hours=5, minutes=30))
        value = datetime(2026, 1, 1, 5, 30, 0, 123456, tzinfo=zone)
        read = values.as_utc("created_at", value)
        assert read == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
        assert read.tzinfo is UTC

    def test_a_naive_time_means_utc(self) -> None:
        read = values.as_utc("created_at", datetime(2026, 1, 1, 12))
        assert read == datetime(2026, 1, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize("value", ["2026-01-01T12:00:00Z", "2026-01-01T13:00:00.000+01:00"])
    def test_iso_8601_is_read(self, value: str) -> None:
        assert values.as_utc("before", value) == datetime(2026, 1, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize("value", ["yesterday", "", 5, None])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match=r"^before must be "):
            values.as_utc("before", value)

    def test_an_instant_outside_the_calendar_is_refused(self) -> None:
        value = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
        with pytest.raises(InvalidValueError, match="years 1 to 9999"):
            values.as_utc("before", value)

    def test_now_is_aware(self) -> None:
        assert values.utcnow().utcoffset() == timedelta(0)


def test_strict_json_text_is_strict() -> None:
    stored = values.encode_object("metadata", {"a": "é", "n": 10**20, "f": 1.0})
    assert stored == '{"a":"é","n":100000000000000000000,"f":1.0}'
    assert json.loads(stored) == {"a": "é", "n": 10**20, "f": 1.0}
