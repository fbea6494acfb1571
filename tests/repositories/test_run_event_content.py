"""Event content: any JSON-like value comes back as it was, whoever wrote it."""

from __future__ import annotations

import enum
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerstore.errors import InvalidValueError
from deerstore.repositories import RunEvent, RunEventCreate, build_run_event_repository
from deerstore.repositories.event_content import encode_content
from deerstore.repositories.rows import stored_value
from tests.repositories.test_run_events import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database
    from deerstore.repositories import RunEventRepository

VALUES: list[Any] = [
    {"a": [1]},
    [],
    {},
    None,
    0,
    False,
    True,
    1,
    1.0,
    1.5,
    -0.0,
    5e-324,
    1e308,
    10**40,
    -(2**63),
    "",
    "[1]",
    "null",
    "{}",
    '"quoted"',
    "NaN",
    " x ",
    "line\r\nbreak\t",
    "é\u0301 ﬀ 😀 \u2028 \ufffd \U0010ffff",
    "a\x00b",
    "\x00",
    "\ud800",
    "\udc00 x \ud83d",
    {"\x00": "\ud800", "k": ["\x00"]},
    {"content_is_json": True},
    [[[[{"deep": [None, True, 0, "", []]}]]]],
    math.inf,
    -math.inf,
    {"n": [math.inf, -math.inf]},
    "x" * 200_000,
    "'; DROP TABLE run_events; --",
    "%s %% :name ? $1 \\ \\0 \\'",
]


@pytest.fixture
def events(database: Database) -> RunEventRepository:
    return build_run_event_repository(database)


def event(content: Any, **fields: Any) -> RunEventCreate:
    return RunEventCreate(
        thread_id="t", run_id="r", event_type="e", category="message", content=content, **fields
    )


def same(one: Any, other: Any) -> bool:
    """Equal in value and type, at every depth; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)


async def test_every_json_like_value_comes_back_exactly(events: RunEventRepository) -> None:
    values = [*VALUES, math.nan]
    made = await events.append_batch([event(value) for value in values])
    read = await events.list_messages("t", limit=len(values))
    for value, stored, found in zip(values, made, read, strict=True):
        assert same(stored.content, value), value
        assert same(found.content, value), value
    for value in values:
        assert same((await events.append(event(value))).content, value)


class Colour(enum.StrEnum):
    RED = "red"


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("given_value", "kept"),
    [
        (Odd(), "odd"),
        ({"a": Odd()}, {"a": "odd"}),
        ((1, 2), [1, 2]),
        ({2: "a", None: "b", True: "c"}, {"2": "a", "null": "b", "true": "c"}),
        (Colour.RED, "red"),
        ([Colour.RED], ["red"]),
    ],
)
async def test_what_is_not_json_becomes_its_string(
    events: RunEventRepository, given_value: Any, kept: Any
) -> None:
    made = await events.append(event(given_value))
    (read,) = await events.list_messages("t")
    assert same(made.content, kept)
    assert read == made


async def test_content_that_contains_itself_is_refused(events: RunEventRepository) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidValueError, match="content"):
        await events.append(event(loop))
    assert await events.count_events() == 0


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (event({"n": [10**5000]}), "content.n[0]"),
        (event("x", metadata={"n": {"m": 10**5000}}), "metadata.n.m"),
    ],
)
async def test_a_number_too_long_for_python_is_refused_with_its_place_in_the_batch(
    events: RunEventRepository, bad: RunEventCreate, path: str
) -> None:
    with pytest.raises(InvalidValueError, match="digits") as caught:
        await events.append_batch([event("good"), bad])
    assert (caught.value.index, caught.value.field) == (1, path)
    assert await events.count_events() == 0


async def test_deep_content_is_read_from_a_deep_stack_as_well(events: RunEventRepository) -> None:
    content: list[Any] = []
    for _ in range(900):
        content = [content]
    await events.append(event(content))

    async def far_down(frames: int) -> list[RunEvent]:
        return await (far_down(frames - 1) if frames else events.list_events("t", "r"))

    (read,) = await far_down(200)
    assert read.content == content


@pytest.mark.parametrize("mark", ["content_is_json", "content_is_dict"])
async def test_nothing_internal_is_visible_in_metadata_or_faked_through_it(
    events: RunEventRepository, mark: str
) -> None:
    metadata = {mark: True, "content_format": "json"}
    made = await events.append_batch(
        [event("[1]", metadata=metadata), event([1], metadata=metadata), event([1])]
    )
    assert [each.content for each in made] == ["[1]", [1], [1]]
    assert [each.metadata for each in made] == [metadata, metadata, {}]
    assert await events.list_messages("t") == made


async def test_rows_of_deerflow_read_as_it_wrote_them(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    rows = [
        ("[1]", "{}", "[1]", {}),
        ("[1]", '{"content_is_json": true, "k": 1}', [1], {"k": 1}),
        ('{"a": "\\u0000"}', '{"content_is_dict": true}', {"a": "\x00"}, {}),
        ("{broken", '{"content_is_json": true}', "{broken", {}),
        ("plain", '{"content_is_json": false}', "plain", {}),
        ("x", "null", "x", {}),
        ("x", "[1]", "x", {}),
        ("x", '{"n": 1e400}', "x", {"n": math.inf}),
    ]
    for seq, (content, metadata, _, _) in enumerate(rows, start=1):
        raw_sql(INSERT, "t", "r", "e", "message", content, metadata, seq, "2026-01-01 00:00:00")
    read = await events.list_messages("t")
    assert [(each.content, each.metadata) for each in read] == [row[2:] for row in rows]
    assert await events.list_events("t", "r", task_id="x") == []


@pytest.mark.engines("sqlite", "mysql", why="a json column of PostgreSQL holds JSON only")
async def test_metadata_that_is_not_json_never_makes_a_list_fail(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    for seq, metadata in enumerate(["", "{", "x", '{"n": NaN, "task_id": "x"}'], start=1):
        raw_sql(INSERT, "t", "r", "e", "message", "c", metadata, seq, "2026-01-01 00:00:00")
    assert [each.metadata for each in await events.list_messages("t")][:3] == [{}, {}, {}]
    (found,) = await events.list_events("t", "r", task_id="x")
    assert math.isnan(found.metadata["n"])


async def test_metadata_with_odd_escapes_never_makes_a_search_fail(
    events: RunEventRepository, raw_sql: Callable[..., Any]
) -> None:
    metadata = ['{"task_id": "x", "n": "\\u0000"}', '{"task_id": "x", "n": "\\ud800"}']
    for seq, each in enumerate(metadata, start=1):
        raw_sql(INSERT, "t", "r", "e", "message", "c", each, seq, "2026-01-01 00:00:00")
    found = await events.list_events("t", "r", task_id="x")
    assert [each.metadata["n"] for each in found] == ["\x00", "\ud800"]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec=None, categories=None)), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_json)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_encoding_is_exact(content: Any) -> None:
    stored, content_format, read_back = encode_content(content)
    stored.encode()
    assert "\x00" not in stored
    for read in (read_back, stored if content_format == "text" else stored_value(stored)):
        # Two surrogates in a row are one character once they are JSON.
        assert same(json.loads(json.dumps(content)), json.loads(json.dumps(read)))
