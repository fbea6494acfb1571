"""How often and after which pause a unit is tried again that the engine gave up."""

from __future__ import annotations

import asyncio
import random

__all__ = ["ATTEMPTS", "pause"]

ATTEMPTS = 8
"""Tries in all, before the error goes to the caller."""

_FIRST = 0.004
_LONGEST = 0.25


async def pause(attempt: int) -> None:
    """Sleep a random time that doubles with each attempt, counted from 1.

    Random, since competitors that wait equally long meet again.
    """
    limit = min(_LONGEST, _FIRST * 2**attempt)
    await asyncio.sleep(random.uniform(limit / 4, limit))  # noqa: S311 - not a secret
