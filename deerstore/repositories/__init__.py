"""Storage of users, runs, run events, threads and feedback: one repository per table group.

::

    runs = build_run_repository(persistence.database)      # each call committed at once
    runs = build_run_repository(session)                   # as part of the session's transaction
    await runs.create_run(RunCreate(run_id="r1", thread_id="t1"))

A repository is built from whatever executes queries, and costs nothing to build.
"""

from __future__ import annotations

from deerstore.repositories.contracts.feedback import (
    Feedback,
    FeedbackCreate,
    FeedbackRepository,
)
from deerstore.repositories.contracts.run_events import (
    RunEvent,
    RunEventCreate,
    RunEventRepository,
)
from deerstore.repositories.contracts.runs import (
    LeaseRenewal,
    Run,
    RunAdmission,
    RunCreate,
    RunFigures,
    RunFinalization,
    RunRepository,
    TokenUsage,
)
from deerstore.repositories.contracts.threads import (
    ThreadMeta,
    ThreadMetaCreate,
    ThreadMetaRepository,
)
from deerstore.repositories.contracts.users import User, UserCreate, UserRepository
from deerstore.repositories.feedback import build_feedback_repository
from deerstore.repositories.run_events import build_run_event_repository
from deerstore.repositories.runs import build_run_repository
from deerstore.repositories.threads import build_thread_meta_repository
from deerstore.repositories.users import build_user_repository

__all__ = [
    "Feedback",
    "FeedbackCreate",
    "FeedbackRepository",
    "LeaseRenewal",
    "Run",
    "RunAdmission",
    "RunCreate",
    "RunEvent",
    "RunEventCreate",
    "RunEventRepository",
    "RunFigures",
    "RunFinalization",
    "RunRepository",
    "ThreadMeta",
    "ThreadMetaCreate",
    "ThreadMetaRepository",
    "TokenUsage",
    "User",
    "UserCreate",
    "UserRepository",
    "build_feedback_repository",
    "build_run_event_repository",
    "build_run_repository",
    "build_thread_meta_repository",
    "build_user_repository",
]
