"""Any state becomes strict JSON, and is itself left alone."""

from __future__ import annotations

import copy
import dataclasses
import json
import uuid
from collections import OrderedDict, UserDict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pydantic
import pydantic.v1
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.types import Interrupt, Send

from deerstore.gateway import serialize_channel_values_for_api
from deerstore.gateway.serialization import CIRCULAR, TOO_DEEP


def strict(values: Any) -> Any:
    """The text must be JSON, encodable as UTF-8, and read back as what was given out."""
    plain = serialize_channel_values_for_api(values)
    text = json.dumps(plain, allow_nan=False)
    json.dumps(plain, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert json.loads(text) == plain
    return plain


class Colour(Enum):
    RED = "red"
    ODD = (1, 2)


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Inner:
    when: datetime
    tags: set[str]


@dataclasses.dataclass
class Outer:
    inner: Inner
    numbers: tuple[float, ...]


@dataclasses.dataclass(slots=True)
class Slotted:
    value: Any


class New(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, extra="allow")
    value: Any = None


class Old(pydantic.v1.BaseModel):
    value: Any = None

    class Config:
        arbitrary_types_allowed = True


class Root(pydantic.RootModel[list[int]]):
    pass


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Numb(pydantic.BaseModel):
    value: int = 1

    def model_dump(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        raise RuntimeError("no dump")


def test_scalars_have_one_documented_form():
    when = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    identity = uuid.UUID(int=1)
    assert strict(
        {
            "when": when,
            "day": date(2026, 1, 2),
            "time": time(3, 4),
            "span": timedelta(minutes=1),
            "id": identity,
            "decimal": Decimal("1.10"),
            "fraction": Fraction(1, 3),
            "enum": Colour.RED,
            "odd_enum": Colour.ODD,
            "level": Level.LOW,
            "bytes": b"\x00\xff",
            "array": bytearray(b"a"),
            "path": PurePosixPath("/a"),
            "set": {"b", "a"},
            "frozen": frozenset([2, 1]),
            "tuple": (1, (2,)),
            "named": Point(1, 2),
            "queue": deque([1]),
            "nan": float("nan"),
            "inf": [float("inf"), -float("inf")],
            "mapping": UserDict({"a": 1}),
            "ordered": OrderedDict(b=1, a=2),
            "nul": "a\x00b",
            "surrogate": "a\ud800b",
            "pair": "\ud83d\ude00",
            "true": True,
            "none": None,
            "root": Root([1, 2]),
        }
    ) == {
        "when": "2026-01-02T03:04:05.000006+00:00",
        "day": "2026-01-02",
        "time": "03:04:00",
        "span": 60.0,
        "id": str(identity),
        "decimal": "1.10",
        "fraction": "1/3",
        "enum": "red",
        "odd_enum": [1, 2],
        "level": 1,
        "bytes": "AP8=",
        "array": "YQ==",
        "path": "/a",
        "set": ["a", "b"],
        "frozen": [1, 2],
        "tuple": [1, [2]],
        "named": [1, 2],
        "queue": [1],
        "nan": None,
        "inf": [None, None],
        "mapping": {"a": 1},
        "ordered": {"b": 1, "a": 2},
        "nul": "a\x00b",
        "surrogate": "a\ufffdb",
        "pair": "\U0001f600",
        "true": True,
        "none": None,
        "root": [1, 2],
    }


def test_messages_read_as_their_model_dump():
    message = AIMessage(
        "x",
        id="m1",
        tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    assert strict({"messages": [message]}) == {"messages": [message.model_dump()]}
    chunk = AIMessageChunk("x", id="m1")
    assert strict([chunk]) == [chunk.model_dump()]


def test_a_declared_base_type_hides_nothing_of_a_message():
    class State(pydantic.BaseModel):
        messages: list[BaseMessage]

    message = AIMessage("x", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])
    assert strict(State(messages=[message]))["messages"][0]["tool_calls"][0]["id"] == "c1"


def test_models_and_dataclasses_at_any_depth():
    when = datetime(2026, 1, 2, tzinfo=UTC)
    outer = Outer(Inner(when, {"a"}), (1.0, float("nan")))
    expected = {"inner": {"when": when.isoformat(), "tags": ["a"]}, "numbers": [1.0, None]}
    assert strict(New(value=Old(value=[Slotted(outer)]), extra=Level.LOW)) == {
        "value": {"value": [{"value": expected}]},
        "extra": 1,
    }
    assert strict({"x": [Old(value=New(value=outer))]}) == {"x": [{"value": {"value": expected}}]}


def test_a_secret_stays_secret():
    class Config(pydantic.BaseModel):
        key: pydantic.SecretStr
        hidden: str = pydantic.Field("x", exclude=True)

    text = json.dumps(strict({"c": Config(key="sesame")}))
    assert "sesame" not in text
    assert "hidden" not in text


def test_keys_that_are_no_text_stay_apart():
    assert strict({1: "int", "1": "text"}) == {"1 (int)": "int", "1": "text"}
    assert strict({None: 1, "null": 2, (1, 2): 3, b"a": 4, Colour.RED: 5, 1.5: 6}) == {
        "null (NoneType)": 1,
        "null": 2,
        "(1, 2)": 3,
        "YQ==": 4,
        "red": 5,
        "1.5": 6,
    }
    odd = [chr(0xD800), chr(0xDFFF), "\ufffd", "\ufffd (str)"]
    assert sorted(strict(dict.fromkeys(odd, 1))) == [
        "\ufffd",
        "\ufffd (str)",
        "\ufffd (str) 2",
        "\ufffd (str) 3",
    ]
    assert strict({Mute(): 1, "a": 2})["a"] == 2


def test_internal_keys_go_and_interrupts_stay():
    values = {
        "messages": [],
        "__pregel_tasks": [Send("a", 1)],
        "__interrupt__": [Interrupt(value={"ask": datetime(2026, 1, 1, tzinfo=UTC)}, id="i1")],
        "config": {"configurable": {"thread_id": "t", "__pregel_send": print}},
    }
    plain = strict(values)
    assert "__pregel" not in json.dumps(plain)
    assert plain["__interrupt__"][0]["value"] == {"ask": "2026-01-01T00:00:00+00:00"}
    assert plain["__interrupt__"][0]["id"] == "i1"
    assert plain["config"] == {"configurable": {"thread_id": "t"}}


def test_cycles_end():
    loop: dict[str, Any] = {"n": 1}
    loop["self"] = loop
    assert strict(loop) == {"n": 1, "self": CIRCULAR}
    message = HumanMessage("x")
    message.additional_kwargs["me"] = message
    assert strict(message)["additional_kwargs"] == {"me": CIRCULAR}
    node = Slotted(None)
    node.value = [node]
    assert strict(node) == {"value": [CIRCULAR]}
    old = Old()
    old.value = old
    assert CIRCULAR in json.dumps(strict({"old": old}))


def test_a_value_shared_by_two_places_is_no_cycle():
    shared = [1]
    assert strict({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: {"a": x},
        lambda x: (x,),
        lambda x: Slotted(x),
        lambda x: New(value=x),
    ],
    ids=["list", "dict", "tuple", "dataclass", "model"],
)
def test_nesting_beyond_every_limit_is_cut(wrap):
    deep: Any = "bottom"
    for _ in range(20_000 if wrap([]) == [[]] else 2_000):
        deep = wrap(deep)
    text = json.dumps(strict({"deep": deep, "beside": 1}))
    assert TOO_DEEP in text
    assert '"beside": 1' in text
    while deep != "bottom":  # let it go piece by piece, not by recursion
        deep = (
            deep.value
            if hasattr(deep, "value")
            else next(iter(deep.values() if isinstance(deep, dict) else deep))
        )


def test_every_value_is_visited_once():
    """Or a state with odd keys at each level would take for ever."""
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"a": deep, 1: None, "é": {None: 1}}
    assert "bottom" in json.dumps(strict(deep))


def test_a_hundred_levels_are_kept_whole():
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"a": [deep]} if _ % 2 else {"a": deep}
    assert "bottom" in json.dumps(strict(deep))


def test_broken_objects_do_not_break_the_rest():
    class BadMapping(UserDict):
        def items(self):
            raise RuntimeError

    class BadInt(int):
        def __int__(self):
            raise RuntimeError

    class Liar:
        def __str__(self):
            return 1  # noqa: PLE0307

    plain = strict(
        {
            "mute": Mute(),
            "numb": Numb(),
            "mapping": BadMapping(a=1),
            "liar": Liar(),
            "nested": New(value=Mute()),
            "int": BadInt(3),
            "after": 1,
            "huge": 10**6000,
            "class": Mute,
            "function": strict,
            "error": ValueError("boom"),
            "generator": (i for i in range(3)),
        }
    )
    assert plain["mute"] == "<Mute>"
    assert plain["numb"] == {"value": 1}
    assert plain["nested"] == {"value": "<Mute>"}
    assert plain["liar"] == "<Liar>"
    assert plain["after"] == 1
    assert plain["huge"] == hex(10**6000)
    assert plain["error"] == "boom"


def test_an_iterator_is_not_consumed():
    source = iter([1, 2])
    strict({"source": source})
    assert list(source) == [1, 2]


# -- properties ----------------------------------------------------------------------------------

json_text = st.text(st.characters(exclude_categories=()), max_size=8)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    json_text,
    st.binary(max_size=8),
    st.datetimes(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.sampled_from([*Colour, *Level, Point(1, 2), PurePosixPath("a")]),
)
keys = st.one_of(
    json_text,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=4),
    st.uuids(),
    st.sampled_from(Colour),
    st.just("__pregel_x"),
    st.tuples(st.integers()),
)


def extend(inner):
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Slotted, inner),
        st.builds(New, value=inner),
        st.builds(Old, value=inner),
        st.builds(
            HumanMessage,
            st.just("hi"),
            additional_kwargs=st.dictionaries(json_text, inner, max_size=3),
        ),
        st.builds(lambda v: Interrupt(value=v, id="i"), inner),
    )


states = st.recursive(
    leaves | st.sets(st.integers() | json_text, max_size=3), extend, max_leaves=25
)


@given(st.dictionaries(json_text, states, max_size=5))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_state_is_strict_json_and_stays_as_it_was(state):
    before = repr(state)
    plain = strict(state)
    assert repr(state) == before
    assert isinstance(plain, dict)
    assert len(plain) == sum(not key.startswith("__pregel_") for key in state)


@given(st.dictionaries(keys, st.integers(), max_size=12))
@settings(max_examples=300, deadline=None)
def test_no_key_is_lost(mapping):
    internal = sum(isinstance(k, str) and k.startswith("__pregel_") for k in mapping)
    plain = strict(mapping)
    assert list(plain.values()) == [
        v for k, v in mapping.items() if not (isinstance(k, str) and k.startswith("__pregel_"))
    ]
    assert len(plain) == len(mapping) - internal


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=5).filter(lambda k: not k.startswith("__pregel_")), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(plain_json)
@settings(deadline=None)
def test_plain_json_comes_back_unchanged_and_unshared(value):
    before = copy.deepcopy(value)
    plain = strict({"x": value})["x"]
    assert plain == value == before
    if isinstance(value, list | dict):
        assert plain is not value


# -- hidden messages -----------------------------------------------------------------------------

PIXELS = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

EMBEDDED = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}},
    {"type": "image_url", "image_url": f"data:image/png;base64,{PIXELS}"},
    {"type": "IMAGE_URL", "image_url": {"url": f"DATA:image/PNG;BASE64,{PIXELS}", "detail": "low"}},
    {"Type": "Image_Url", "Image_Url": {"URL": f" Data:Image/Png;Base64,{PIXELS}"}},
    {"type": "image_url", "image_url": {"url": f"data:;base64,{PIXELS}"}},
    {"type": "input_image", "image_url": f"data:image/jpeg;base64,{PIXELS}"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}},
    {"type": "image", "source": {"type": "BASE64", "media_type": "IMAGE/PNG", "data": "AAAA"}},
    {"type": "image", "base64": PIXELS, "mime_type": "image/png"},
    {"type": "image", "base64": "AAAA"},
    {"type": "image", "source_type": "base64", "data": PIXELS, "mime_type": "image/png"},
    {"type": "image", "url": f"data:image/png;base64,{PIXELS}"},
    {"type": "image", "image": PIXELS},
    {"type": "image", "data": b"\x89PNG"},
    {"inline_data": {"mime_type": "image/png", "data": PIXELS}},
    {"inlineData": {"mimeType": "image/webp", "data": "AAAA"}},
    {"type": "media", "mime_type": "image/png", "data": PIXELS},
    {"type": "file", "source_type": "base64", "mime_type": "image/png", "data": "AAAA"},
    {"image": {"format": "png", "source": {"bytes": b"abc"}}},
    {
        "type": "non_standard",
        "value": {"type": "image", "source": {"type": "base64", "data": "AA"}},
    },
    {"image_url": f"data:image/gif;base64,{PIXELS}"},
    f"data:image/png;base64,{PIXELS}",
]
KEPT = [
    {"type": "text", "text": "what is this?"},
    {"type": "text", "text": "a data: URL is a URL; image/png is a type"},
    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "file_011CNha8iCJcU1wXNR6q4V8w"}},
    {"type": "image", "url": "https://example.org/a.png", "mime_type": "image/png"},
    {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"},
    {"type": "tool_use", "id": "c1", "input": {"image": "cat.png", "data": [1, 2]}},
    "just words",
]


@pytest.mark.parametrize("block", EMBEDDED, ids=lambda b: json.dumps(b, default=str)[:60])
def test_an_embedded_image_is_dropped_in_every_shape(block):
    hidden = HumanMessage("", additional_kwargs={"hide_from_ui": True})
    hidden.content = [KEPT[0], block, KEPT[1]]
    before = copy.deepcopy(hidden.content)
    assert strict({"messages": [hidden]})["messages"][0]["content"] == [KEPT[0], KEPT[1]]
    assert hidden.content == before
    shown = HumanMessage("")
    shown.content = [block]
    assert len(strict([shown])[0]["content"]) == 1


@pytest.mark.parametrize("block", KEPT, ids=lambda b: json.dumps(b)[:60])
def test_everything_else_stays(block):
    hidden = SystemMessage("", additional_kwargs={"hide_from_ui": True})
    hidden.content = [block, EMBEDDED[0], block]
    assert strict(hidden)["content"] == [block, block]


@given(
    st.lists(st.sampled_from([*range(len(EMBEDDED)), *range(100, 100 + len(KEPT))]), max_size=12)
)
@settings(deadline=None)
def test_what_stays_keeps_its_order(choice):
    hidden = HumanMessage("", additional_kwargs={"hide_from_ui": True})
    hidden.content = [KEPT[i - 100] if i >= 100 else EMBEDDED[i] for i in choice]
    assert strict(hidden)["content"] == [KEPT[i - 100] for i in choice if i >= 100]


def test_images_inside_other_parts_of_a_hidden_message():
    hidden = ToolMessage(
        content=[
            {"type": "tool_result", "content": [EMBEDDED[6], KEPT[0]]},
            {"type": "text", "text": f"see data:image/png;base64,{PIXELS} here"},
        ],
        tool_call_id="c1",
        artifact={"image": EMBEDDED[8], "caption": "cat", "images": [EMBEDDED[0]]},
        additional_kwargs={
            "hide_from_ui": True,
            "image": f"data:image/png;base64,{PIXELS}",
            "note": "kept",
        },
    )
    plain = strict(hidden)
    assert PIXELS not in json.dumps(plain)
    assert plain["content"] == [
        {"type": "tool_result", "content": [KEPT[0]]},
        {"type": "text", "text": "see  here"},
    ]
    assert plain["artifact"] == {"caption": "cat", "images": []}
    assert plain["additional_kwargs"] == {"hide_from_ui": True, "note": "kept"}


def test_a_hidden_message_is_known_as_a_dict_and_inside_models():
    message = {
        "type": "human",
        "content": [EMBEDDED[0], KEPT[0]],
        "additional_kwargs": {"hide_from_ui": True},
    }
    wrapped = New(value=[Slotted({"messages": (message,)})])
    text = json.dumps(strict(wrapped))
    assert PIXELS not in text
    assert "what is this?" in text
    constructor = {"lc": 1, "type": "constructor", "kwargs": message}
    assert PIXELS not in json.dumps(strict(constructor))


def test_string_content_loses_only_the_image():
    hidden = HumanMessage(
        f"before ![x](data:image/png;base64,{PIXELS}) after",
        additional_kwargs={"hide_from_ui": True},
    )
    assert strict(hidden)["content"] == "before ![x]() after"
    shown = HumanMessage(
        f"data:image/png;base64,{PIXELS}", additional_kwargs={"hide_from_ui": False}
    )
    assert PIXELS in strict(shown)["content"]
