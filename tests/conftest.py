"""The fixtures of every test; each module of `tests.fixtures` owns one subject."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = [
    "tests.fixtures.fix_engines",
    "tests.fixtures.fix_leaks",
    "tests.fixtures.fix_databases",
    "tests.fixtures.fix_persistence",
]

# A slow machine is no counterexample. Integration tries the same examples each time; whoever works
# here tries new ones.
settings.register_profile("workplace", deadline=None)
settings.register_profile("integration", deadline=None, derandomize=True)
settings.load_profile("integration" if os.environ.get("CI") else "workplace")
