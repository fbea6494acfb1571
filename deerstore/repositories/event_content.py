"""Event content between Python and its column: any JSON-like value, exact in value and type.

The column ``content_format`` says how ``content`` is to be read, so that no value can be taken for
another one: ``text`` is the string itself, ``json`` is JSON text. A row without it is DeerFlow's,
which marked JSON in the metadata; the marks are taken off such a row, and off no other.
"""

from __future__ import annotations

from typing import Any

from deerstore.json_text import encode_exact_json_and_copy, stored_object
from deerstore.repositories.rows import stored_value

__all__ = ["decode_foreign", "encode_content"]

_MARKS = ("content_is_json", "content_is_dict")


def encode_content(content: Any) -> tuple[str, str, Any]:
    """``content`` and ``content_format`` as they are stored, and what a later read will give.

    Raises:
        InvalidValueError: the value is nested too deeply or contains itself.
    """
    if isinstance(content, str) and _storable(content):
        stored = content if type(content) is str else str.__str__(content)
        return stored, "text", stored
    stored, read = encode_exact_json_and_copy("content", content, allow_nan=True)
    return stored, "json", read


def decode_foreign(content: str, metadata: Any) -> tuple[Any, dict[str, Any]]:
    """Content and metadata of a row that has no ``content_format``: another writer's."""
    read = stored_object(metadata)
    marks = [read.pop(mark, None) for mark in _MARKS]
    return (stored_value(content) if True in marks else content), read


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
