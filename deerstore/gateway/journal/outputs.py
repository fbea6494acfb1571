"""Keeps a run's outputs at a size that a row can carry."""

from __future__ import annotations

import json
from typing import Any

from deerstore.gateway.serialization import serialize_channel_values_for_api

__all__ = ["bounded_outputs"]


def bounded_outputs(outputs: Any, limit: int) -> tuple[Any, dict[str, Any]]:
    """Outputs as plain JSON data of at most ``limit`` UTF-8 bytes, and what was cut.

    When they are too large, each key gets an equal share of the limit, and what small ones leave
    over goes to the large ones. A list keeps its newest items, a text its beginning, anything
    else goes as a whole. The second value is empty, or says ``content_truncated``,
    ``original_byte_length`` and under ``cut`` how many bytes of each key there were.
    """
    plain = serialize_channel_values_for_api(outputs)
    size = _size(plain)
    if size <= limit:
        return plain, {}
    metadata: dict[str, Any] = {"content_truncated": True, "original_byte_length": size}
    if not isinstance(plain, dict):
        return _fitted(plain, limit), metadata
    sizes = {key: _size(value) for key, value in plain.items()}
    # Braces, and for each key its own text, a colon and a comma.
    left = limit - 2 - sum(_size(key) + 2 for key in plain)
    kept: dict[str, Any] = {}
    cut: dict[str, int] = {}
    waiting = len(sizes)
    for key in sorted(sizes, key=sizes.__getitem__):
        share = max(left // waiting, 0)
        waiting -= 1
        value = plain[key]
        if sizes[key] > share:
            cut[key] = sizes[key]
            value = _fitted(value, share)
        kept[key] = value
        left -= _size(value)
    content = {key: kept[key] for key in plain}
    if _size(content) > limit:
        # More keys than the limit has room for.
        content, cut = {}, {}
    return content, {**metadata, **({"cut": cut} if len(cut) <= 100 else {})}


def _fitted(value: Any, limit: int) -> Any:
    if isinstance(value, list):
        room = limit - 2
        kept: list[Any] = []
        for item in reversed(value):
            room -= _size(item) + 1
            if room < -1:
                break
            kept.append(item)
        return kept[::-1] if limit >= 2 else None
    if isinstance(value, str):
        text = value.encode()[: max(limit - 2, 0)].decode(errors="ignore")
        while text and _size(text) > limit:
            # Escaped characters take more room than their own.
            text = text[: len(text) * 3 // 4]
        return text or None
    return value if _size(value) <= limit else None


def _size(plain: Any) -> int:
    return len(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode())
