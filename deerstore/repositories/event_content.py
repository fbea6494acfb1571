"""Event content between Python and its column: any JSON-like value, exact in value and type.

The column ``content_format`` says how ``content`` is to be read, so that no value can be taken for
another one: ``text`` is the string itself, ``json`` is JSON text. A row without it is DeerFlow's,
which marked JSON in the metadata; the marks are taken off such a row, and off no other.
"""

from __future__ import annotations

from typing import Any

from deerstore.repositories.rows import stored_value
from deerstore.values import decode_json, encode_exact_json, stored_object

__all__ = ["content_as_read", "decode_event", "encode_content", "metadata_as_read"]

_ATOMS = frozenset({str, int, float, bool, type(None)})
_NAMES = frozenset({str})
_MARKS = ("content_is_json", "content_is_dict")


def encode_content(content: Any) -> tuple[str, str]:
    """``content`` and ``content_format`` as they are stored.

    Raises:
        InvalidValueError: the value is nested too deeply or contains itself.
    """
    if isinstance(content, str) and _storable(content):
        return (content if type(content) is str else str.__str__(content)), "text"
    return encode_exact_json("content", content, allow_nan=True), "json"


def content_as_read(content: Any, stored: str, content_format: str) -> Any:
    """What a later read will give for content that was stored like this."""
    if content_format == "text":
        return stored
    if content is None or type(content) in (bool, int):
        return content
    # An escaped surrogate may be half of a character that only the decoder puts together.
    if "\\ud" not in stored and _flat(content):
        return dict(content)
    return decode_json(stored)


def metadata_as_read(metadata: dict[str, Any], stored: str) -> dict[str, Any]:
    """What a later read will give for metadata that was stored like this."""
    return dict(metadata) if _flat(metadata) else decode_json(stored)


def decode_event(
    content: str, metadata: Any, content_format: str | None
) -> tuple[Any, dict[str, Any]]:
    """Content and metadata of a stored row, whoever wrote it."""
    if content_format == "text":
        return content, stored_object(metadata)
    if content_format == "json":
        return stored_value(content), stored_object(metadata)
    read = stored_object(metadata)
    marks = [read.pop(mark, None) for mark in _MARKS]
    return (stored_value(content) if True in marks else content), read


def _flat(value: Any) -> bool:
    """Whether it is an object of plain scalars: a copy is then what the decoder would make."""
    return (
        type(value) is dict
        and _ATOMS.issuperset(map(type, value.values()))
        and _NAMES.issuperset(map(type, value))
    )


def _storable(text: str) -> bool:
    """Whether every engine has room for it: no U+0000, no lone surrogate."""
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
