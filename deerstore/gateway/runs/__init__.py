"""The life of a run: decided in the database, carried out in this process."""

from __future__ import annotations

from deerstore.gateway.runs.manager import RunManager
from deerstore.gateway.runs.outcome import CancelOutcome

__all__ = ["CancelOutcome", "RunManager"]
