"""The configuration page names every setting."""

from __future__ import annotations

import re
from pathlib import Path

from deerstore.config import StorageConfig

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text("utf-8")


def test_every_field_is_on_the_page() -> None:
    """And no field that there is not, with the words of its description."""
    table = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", PAGE, re.MULTILINE))
    assert table.keys() == StorageConfig.model_fields.keys()
    for name, field in StorageConfig.model_fields.items():
        description = (field.description or "").rpartition(" Default: ")[0]
        assert table[name] == description.replace("|", "/")
