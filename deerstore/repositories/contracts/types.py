"""Field types and model settings that the DTOs share."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, SkipValidation

__all__ = ["CREATED", "STORED", "Id", "IdLike", "JsonObject", "Time"]

CREATED = ConfigDict(extra="forbid")
"""Settings of the ``*Create`` models: a mistyped field is an error."""

STORED = ConfigDict(frozen=True)
"""Settings of the models that are read from the database."""

IdLike = str | uuid.UUID
"""An id as an argument; a UUID is taken as its canonical string."""


def _canonical(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value


Id = Annotated[str, BeforeValidator(_canonical)]
"""An id as a field: a string, or a UUID, which becomes its canonical string."""

JsonObject = Annotated[dict[str, Any], SkipValidation]
"""A JSON object. The repository checks it, so that the error names the path of what is wrong."""

Time = datetime | str
"""An instant as an argument: a datetime (naive means UTC) or ISO 8601 text."""
