"""Every operation of the repositories against its floor.

The *floor* of an operation is what it would cost without deerstore: the same statements with the
same arguments on the bare driver, values encoded and rows decoded to the same JSON and the same
times, but no checks and no DTO. Both are run in turn, in random order, in one process, on one
database, so that what the machine does meanwhile meets both.
"""

from __future__ import annotations

from deerstore.workbench.bench.floor import Floor, open_floor, record
from deerstore.workbench.bench.measure import (
    Contestant,
    Interval,
    Series,
    interleave,
    median_interval,
    ratio_interval,
)
from deerstore.workbench.bench.operations import OPERATIONS, Operation, Repositories, repositories
from deerstore.workbench.bench.run import Line, bench

__all__ = [
    "OPERATIONS",
    "Contestant",
    "Floor",
    "Interval",
    "Line",
    "Operation",
    "Repositories",
    "Series",
    "bench",
    "interleave",
    "median_interval",
    "open_floor",
    "ratio_interval",
    "record",
    "repositories",
]
