"""The journal of a run: a LangChain callback handler that observes it and writes its events."""

from __future__ import annotations

from deerstore.gateway.journal.handler import RunJournal

__all__ = ["RunJournal"]
