"""The connection facade over the three drivers.

::

    async with await Database.open(config) as database:
        run = await database.fetch_optional(catalog["runs.get_run"], run_id="r1")
        async with database.transaction() as session:
            await session.execute(catalog["notes.add"], text="…")

The drivers load when a database is opened.
"""

from __future__ import annotations

from deerstore.database.database import Database
from deerstore.database.executor import Executor
from deerstore.database.rows import Row
from deerstore.database.session import Session
from deerstore.database.units import Unit

__all__ = ["Database", "Executor", "Row", "Session", "Unit"]
