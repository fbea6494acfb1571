"""Print pip constraints that hold each run-time dependency at the lower end of its range."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

_LOWER = re.compile(r"^(?P<name>[A-Za-z0-9-]+)(\[[^]]*\])?>=(?P<version>[0-9.]+)")


def lowest(pyproject: Path = PYPROJECT) -> list[str]:
    """`name==version` for every dependency and every extra of the package."""
    project = tomllib.loads(pyproject.read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras for line in extras[name])]
    found = [_LOWER.match(line) for line in lines]
    return sorted({f"{match['name']}=={match['version']}" for match in found if match})


if __name__ == "__main__":
    print("\n".join(lowest()))
