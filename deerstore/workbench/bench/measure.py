"""Times of competitors that run in turn, and what may be said about them.

A shared machine is never quiet, so no number stands alone: the competitors take turns in blocks
of a few calls, in an order that is drawn anew each round. A block gives its median; what is
reported is the median of the blocks, with an interval from the bootstrap. A ratio is taken round
by round, between blocks that ran within a moment of each other.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

__all__ = ["Contestant", "Interval", "Series", "interleave", "median_interval", "ratio_interval"]

_RESAMPLES = 1_000
_SEED = 20


class Interval(NamedTuple):
    """A median and the range in which 95 of 100 repetitions would find it."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether the two cannot be told apart."""
        return self.low <= other.high and other.low <= self.high


@dataclass
class Series:
    """The raw times of one competitor in nanoseconds: one list per block."""

    name: str
    blocks: list[list[int]] = field(default_factory=list)

    @property
    def medians(self) -> list[float]:
        """The median of each block, in nanoseconds."""
        return [median(block) for block in self.blocks]


@dataclass(frozen=True)
class Contestant:
    """One way to do the work: ``call(number)`` does it once, with the input of that number."""

    name: str
    call: Callable[[int], Awaitable[object]]


async def interleave(
    contestants: Sequence[Contestant], *, rounds: int, calls: int, warm: int
) -> list[Series]:
    """Let them take turns: ``rounds`` blocks of ``calls`` calls each, after ``warm`` calls.

    The inputs are numbered from 0 for each competitor and never used twice.
    """
    order = list(contestants)
    series = {each.name: Series(each.name) for each in contestants}
    number = 0
    for each in contestants:
        for offset in range(warm):
            await each.call(offset)
    number += warm
    shuffle = random.Random(_SEED)  # noqa: S311 - not a secret
    # The inputs that were made beforehand are none of the competitors' garbage.
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        shuffle.shuffle(order)
        for each in order:
            call = each.call
            times = []
            # One call outside the count: the caches of the one before are not this one's fault.
            await call(number)
            for offset in range(1, calls + 1):
                start = perf_counter_ns()
                await call(number + offset)
                times.append(perf_counter_ns() - start)
            series[each.name].blocks.append(times)
        number += calls + 1
    gc.unfreeze()
    return list(series.values())


def inputs_needed(*, rounds: int, calls: int, warm: int) -> int:
    """How many inputs :func:`interleave` asks of each competitor."""
    return warm + rounds * (calls + 1)


def median_interval(values: Sequence[float]) -> Interval:
    """The median of ``values`` with its 95 % interval from the bootstrap."""
    draw = random.Random(_SEED)  # noqa: S311 - not a secret
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Interval(
        median(values), medians[round(_RESAMPLES * 0.025)], medians[round(_RESAMPLES * 0.975) - 1]
    )


def ratio_interval(series: Series, base: Series) -> Interval:
    """How many times ``base`` a competitor took, round by round."""
    pairs = zip(series.medians, base.medians, strict=True)
    return median_interval([own / other for own, other in pairs])
