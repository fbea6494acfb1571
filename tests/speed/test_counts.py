"""Trips and function calls per operation: no machine blurs them, so no slow path comes back unseen.

The times are in ``docs/benchmarks.md``; these counts are why they are what they are.
"""

from __future__ import annotations

from deerstore.workbench.bench import OPERATIONS
from tests.speed.conftest import measured

COLUMNS = {"sqlite": 0, "postgres": 1, "mysql": 2}

#: On SQLite, PostgreSQL and MySQL. What is not here is one trip everywhere: one statement with
#: nothing around it, or on SQLite one unit of several. More are BEGIN, the statements, COMMIT.
TRIPS = {
    "users.update_user": (1, 1, 5),
    "runs.admit_run": (1, 1, 4),
    "runs.renew_lease": (1, 1, 4),
    "runs.request_cancel": (1, 1, 4),
    "run_events.append": (1, 1, 4),
    "run_events.append_batch 1": (1, 1, 4),
    "run_events.append_batch 10": (1, 1, 4),
    "run_events.append_batch 100": (1, 1, 4),
    "run_events.append_batch 1000": (1, 1, 4),
    "run_events.append_batch 10, two threads": (1, 6, 6),
    "run_events.append_if_absent": (1, 4, 6),
    "run_events.delete_by_run": (1, 1, 4),
    "run_events.delete_by_thread": (1, 1, 4),
    "threads.search_threads 10, three filters": (1, 2, 2),
    "threads.merge_thread_metadata": (1, 4, 4),
    "feedback.upsert_feedback": (1, 1, 4),
}

#: How often a function of deerstore was entered or gone on with, when this was written: SQLite,
#: PostgreSQL, aiomysql, asyncmy. Newer releases of Python enter fewer.
FUNCTION_CALLS = {
    "users.get_user_by_id": (25, 25, 47, 30),
    "users.get_user_by_email": (28, 28, 52, 33),
    "users.get_user_by_oauth": (26, 26, 49, 31),
    "users.get_first_admin": (24, 24, 45, 29),
    "users.count_users": (25, 25, 45, 30),
    "users.count_admin_users": (25, 25, 45, 30),
    "users.create_user": (41, 40, 66, 46),
    "users.update_user": (38, 38, 165, 93),
    "runs.get_run": (28, 28, 51, 33),
    "runs.get_runs 20": (134, 133, 196, 139),
    "runs.list_runs_by_thread 50": (231, 231, 354, 236),
    "runs.list_runs_before 50": (230, 230, 353, 235),
    "runs.aggregate_tokens_by_thread 190": (2116, 2116, 2137, 2121),
    "runs.list_pending": (27, 27, 47, 32),
    "runs.list_inflight 10": (67, 67, 107, 72),
    "runs.list_expired_inflight": (68, 68, 110, 73),
    "runs.create_run": (55, 54, 94, 60),
    "runs.admit_run": (66, 65, 174, 112),
    "runs.start_run": (25, 24, 41, 30),
    "runs.update_run_status": (28, 27, 52, 33),
    "runs.update_model_name": (28, 27, 45, 33),
    "runs.update_run_progress": (45, 44, 72, 50),
    "runs.update_run_completion": (47, 46, 80, 52),
    "runs.finalize_run": (28, 27, 49, 33),
    "runs.renew_lease": (30, 29, 112, 73),
    "runs.request_cancel": (27, 26, 102, 67),
    "runs.claim_expired_run": (28, 27, 49, 33),
    "runs.delete_run": (22, 22, 36, 27),
    "run_events.list_messages 50 of 2000": (180, 180, 252, 185),
    "run_events.list_messages_by_run 50": (182, 182, 255, 187),
    "run_events.list_events 500": (1530, 1530, 2053, 1535),
    "run_events.last_ai_seq_by_run 20": (52, 51, 74, 57),
    "run_events.count_messages 2000": (27, 27, 48, 32),
    "run_events.append": (46, 43, 161, 106),
    "run_events.append_batch 1": (41, 38, 156, 101),
    "run_events.append_batch 10": (144, 141, 385, 211),
    "run_events.append_batch 100": (819, 816, 2320, 886),
    "run_events.append_batch 1000": (7569, 7566, 21670, 7636),
    "run_events.append_batch 10, two threads": (151, 204, 422, 237),
    "run_events.append_if_absent": (44, 74, 212, 126),
    "run_events.delete_by_run": (24, 24, 89, 64),
    "run_events.delete_by_thread": (22, 22, 86, 62),
    "threads.get_thread_meta": (25, 25, 48, 30),
    "threads.check_access": (26, 26, 47, 31),
    "threads.search_threads 100": (129, 129, 360, 134),
    "threads.search_threads 10, one filter": (41, 41, 92, 46),
    "threads.search_threads 10, three filters": (47, 82, 156, 92),
    "threads.create_thread_meta": (33, 32, 57, 38),
    "threads.update_thread_meta": (28, 27, 49, 33),
    "threads.merge_thread_metadata": (28, 145, 182, 148),
    "threads.update_owner": (28, 27, 45, 33),
    "threads.delete_thread": (22, 22, 36, 27),
    "feedback.get_feedback": (24, 24, 46, 29),
    "feedback.list_feedback_by_run 50": (28, 28, 100, 33),
    "feedback.list_feedback_by_thread 100": (27, 27, 149, 32),
    "feedback.latest_feedback_by_run_ids 20": (53, 52, 76, 58),
    "feedback.aggregate_feedback_by_run": (25, 25, 47, 30),
    "feedback.create_feedback": (33, 32, 59, 38),
    "feedback.upsert_feedback": (33, 32, 122, 73),
    "feedback.delete_feedback": (22, 22, 36, 27),
    "feedback.delete_feedback_by_run": (24, 24, 39, 29),
}
SLACK = 1.2


async def test_trips_and_function_calls_of_every_operation(counted, engine, mysql_driver):
    database, trips = counted
    column = COLUMNS[engine]
    calls_column = 3 if engine == "mysql" and mysql_driver == "asyncmy" else column
    wrong = []
    async for name, spent, entered in measured(database, trips):
        allowed = TRIPS.get(name, (1, 1, 1))[column]
        if spent != allowed:
            wrong.append(f"{name}: {spent} trips, not {allowed}")
        budget = FUNCTION_CALLS[name][calls_column] * SLACK + 10
        if entered > budget:
            wrong.append(f"{name}: {entered} function calls, at most {budget:.0f}")
    assert not wrong, "\n".join(wrong)


def test_every_operation_has_its_counts():
    assert {operation.name for operation in OPERATIONS} == set(FUNCTION_CALLS)
