"""The fixtures of every test; each module of `tests.fixtures` owns one subject."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.fix_engines",
    "tests.fixtures.fix_leaks",
    "tests.fixtures.fix_databases",
    "tests.fixtures.fix_persistence",
]
