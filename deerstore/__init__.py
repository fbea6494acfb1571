"""The fact layer of an agent gateway: what can be resumed, queried and audited."""

from __future__ import annotations

__version__ = "0.1.0"
