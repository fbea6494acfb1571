"""The value rules: what is accepted, what it becomes, and what the refusal names."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest

from deerstore import values
from deerstore.errors import InvalidValueError


class Colour(StrEnum):
    RED = "red"


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
