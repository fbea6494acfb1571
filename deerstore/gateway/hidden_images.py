"""Drops embedded image data from messages that the user does not see.

A hidden message often carries an image that was put there for the model alone. Its bytes are
large, and the browser has no use for them. Every provider spells such a block in its own way, so
a block is recognised by what it says and holds, not by one shape, and in any letter case:

- a list item is dropped when it says that it is an image (its type, its media type, the one key
  that wraps it) and holds the image itself, as base64 or as a ``data:`` URL;
- a value under a key is dropped when it is such an item, or when the key speaks of an image;
- a ``data:image/`` URL inside longer text is cut out of the text.

An image that is only referred to (``https://``, a file id) stays.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["drop_embedded_images", "is_hidden_message"]

_DATA_URL = re.compile(r"\s*data:", re.IGNORECASE)
_IMAGE_DATA_URL = re.compile(
    r"data:image/[a-z0-9.+-]+(?:;[a-z0-9=._+\"-]+)*,[a-z0-9+/=_%.~!$&'*:@-]*", re.IGNORECASE
)
_LONG_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{64,}={0,2}\s*")
# How PNG, JPEG, GIF, WebP and SVG begin in base64.
_IMAGE_MAGIC = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy")
_DATA_KEYS = frozenset({"base64", "b64", "b64_json", "data", "bytes", "blob", "image_data"})
_MEDIA_TYPE_KEYS = frozenset({"mime_type", "mimetype", "media_type", "mediatype", "content_type"})
_SOURCE_KEYS = frozenset({"source", "inline_data", "inlinedata", "file", "media", "blob"})
# What a wrapper may carry beside the block it wraps.
_INCIDENTAL_KEYS = frozenset({"type", "id", "index", "cache_control", "extras"})


def is_hidden_message(plain: dict[str, Any]) -> bool:
    """Whether a message, as plain data, is marked ``hide_from_ui``."""
    extra = plain.get("additional_kwargs")
    return isinstance(extra, dict) and bool(extra.get("hide_from_ui"))


def drop_embedded_images(message: dict[str, Any]) -> dict[str, Any]:
    """A hidden message, as plain JSON data, without embedded image data; order is kept."""
    return {key: _clean(value) for key, value in message.items() if not _is_image_url(value)}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _IMAGE_DATA_URL.sub("", value) if _DATA_URL.search(value) else value
    if isinstance(value, list):
        return [_clean(item) for item in value if not (_is_image_url(item) or _is_image(item))]
    if isinstance(value, dict):
        return {
            key: _clean(item)
            for key, item in value.items()
            if not (_is_image_url(item) or _is_image(item) or _names_image(key, item))
        }
    return value


def _is_image_url(value: Any) -> bool:
    """Whether a value is nothing but a ``data:image/`` URL."""
    return isinstance(value, str) and bool(_IMAGE_DATA_URL.fullmatch(value.strip()))


def _is_image(value: Any) -> bool:
    """Whether a value is a block that says it is an image and holds it, or wraps only that."""
    if not isinstance(value, dict):
        return False
    if _says_image(value) and _holds_data(value):
        return True
    if any(_is_image_base64(key, item) for key, item in value.items()):
        return True
    wrapped = [(key, item) for key, item in value.items() if key.lower() not in _INCIDENTAL_KEYS]
    if len(wrapped) != 1:
        return False
    ((key, item),) = wrapped
    return _is_image_url(item) or _is_image(item) or _names_image(key, item)


def _names_image(key: str, value: Any) -> bool:
    """Whether a key speaks of an image and its value holds one."""
    return "image" in key.lower() and (
        _holds_data(value) if isinstance(value, dict) else _is_embedded(value)
    )


def _says_image(block: dict[str, Any]) -> bool:
    for key, value in block.items():
        lowered = key.lower()
        if isinstance(value, str):
            says = value.strip().lower()
            if lowered == "type" and "image" in says:
                return True
            if lowered in _MEDIA_TYPE_KEYS and says.startswith("image/"):
                return True
        elif lowered in _SOURCE_KEYS and isinstance(value, dict) and _says_image(value):
            return True
    return False


def _holds_data(block: dict[str, Any]) -> bool:
    """Whether an image block holds the image, and not only where to find it."""
    for key, value in block.items():
        if isinstance(value, dict):
            if _holds_data(value):
                return True
        elif key.lower() in _DATA_KEYS:
            # A URL under such a key is a reference; anything else is the image.
            if value and not (isinstance(value, str) and re.match(r"\s*\w+://", value)):
                return True
        elif _is_embedded(value):
            return True
    return False


def _is_embedded(value: Any) -> bool:
    return isinstance(value, str) and bool(_DATA_URL.match(value) or _LONG_BASE64.fullmatch(value))


def _is_image_base64(key: str, value: Any) -> bool:
    """Whether the data itself shows that it is an image, where nothing else says so."""
    return (
        key.lower() in _DATA_KEYS
        and isinstance(value, str)
        and value.lstrip().startswith(_IMAGE_MAGIC)
    )
