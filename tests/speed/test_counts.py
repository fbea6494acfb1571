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
    "run_events.append": (1, 1, 5),
    "run_events.append_batch 1": (1, 1, 5),
    "run_events.append_batch 10": (1, 1, 5),
    "run_events.append_batch 100": (1, 1, 5),
    "run_events.append_batch 1000": (1, 1, 5),
    "run_events.append_batch 10, two threads": (1, 6, 6),
    "run_events.append_if_absent": (1, 4, 7),
    "run_events.delete_by_run": (1, 1, 4),
    "run_events.delete_by_thread": (1, 1, 4),
    "threads.search_threads 10, three filters": (1, 2, 2),
    "threads.merge_thread_metadata": (1, 4, 4),
    "feedback.upsert_feedback": (1, 1, 4),
}

#: How often a function of deerstore was entered or gone on with, when this was written: SQLite,
#: PostgreSQL, aiomysql, asyncmy. Newer releases of Python enter fewer. Over aiomysql they include
#: the reading of results, which the other drivers do inside.
FUNCTION_CALLS = {
    "users.get_user_by_id": (33, 33, 54, 37),
    "users.get_user_by_email": (39, 35, 63, 44),
    "users.get_user_by_oauth": (33, 33, 56, 38),
    "users.get_first_admin": (30, 30, 51, 35),
    "users.count_users": (30, 30, 50, 35),
    "users.count_admin_users": (30, 30, 50, 35),
    "users.create_user": (62, 55, 83, 63),
    "users.update_user": (181, 180, 301, 217),
    "runs.get_run": (38, 38, 60, 42),
    "runs.get_runs 20": (200, 200, 241, 184),
    "runs.list_runs_by_thread 50": (330, 330, 452, 334),
    "runs.list_runs_before 50": (344, 340, 461, 343),
    "runs.aggregate_tokens_by_thread 190": (2313, 2313, 2333, 2317),
    "runs.list_pending": (33, 33, 53, 38),
    "runs.list_inflight 10": (83, 83, 123, 88),
    "runs.list_expired_inflight": (85, 85, 127, 90),
    "runs.create_run": (84, 76, 112, 78),
    "runs.admit_run": (101, 93, 200, 138),
    "runs.start_run": (34, 31, 47, 36),
    "runs.update_run_status": (43, 36, 63, 44),
    "runs.update_model_name": (38, 35, 52, 40),
    "runs.update_run_progress": (66, 63, 90, 68),
    "runs.update_run_completion": (74, 67, 103, 75),
    "runs.finalize_run": (39, 36, 56, 40),
    "runs.renew_lease": (46, 39, 125, 86),
    "runs.request_cancel": (38, 35, 114, 79),
    "runs.claim_expired_run": (39, 36, 57, 41),
    "runs.delete_run": (31, 29, 42, 33),
    "run_events.list_messages 50 of 2000": (288, 288, 334, 267),
    "run_events.list_messages_by_run 50": (292, 292, 338, 270),
    "run_events.list_events 500": (2540, 2540, 2811, 2293),
    "run_events.last_ai_seq_by_run 20": (78, 78, 79, 62),
    "run_events.count_messages 2000": (34, 34, 54, 38),
    "run_events.append": (106, 92, 218, 163),
    "run_events.append_batch 1": (105, 91, 216, 161),
    "run_events.append_batch 10": (236, 223, 477, 303),
    "run_events.append_batch 100": (1451, 1438, 2997, 1563),
    "run_events.append_batch 1000": (13601, 13588, 28197, 14163),
    "run_events.append_batch 10, two threads": (253, 296, 523, 338),
    "run_events.append_if_absent": (70, 97, 235, 149),
    "run_events.delete_by_run": (40, 32, 101, 76),
    "run_events.delete_by_thread": (38, 29, 99, 74),
    "threads.get_thread_meta": (34, 34, 56, 38),
    "threads.check_access": (34, 34, 53, 37),
    "threads.search_threads 100": (246, 242, 476, 250),
    "threads.search_threads 10, one filter": (68, 64, 118, 72),
    "threads.search_threads 10, three filters": (105, 101, 178, 114),
    "threads.create_thread_meta": (53, 46, 73, 54),
    "threads.update_thread_meta": (38, 35, 56, 40),
    "threads.merge_thread_metadata": (129, 141, 175, 141),
    "threads.update_owner": (39, 36, 52, 40),
    "threads.delete_thread": (31, 29, 42, 33),
    "feedback.get_feedback": (32, 32, 53, 36),
    "feedback.list_feedback_by_run 50": (37, 37, 107, 40),
    "feedback.list_feedback_by_thread 100": (36, 36, 156, 39),
    "feedback.latest_feedback_by_run_ids 20": (80, 80, 82, 64),
    "feedback.aggregate_feedback_by_run": (33, 33, 53, 36),
    "feedback.create_feedback": (50, 47, 67, 49),
    "feedback.upsert_feedback": (55, 48, 139, 90),
    "feedback.delete_feedback": (31, 29, 42, 33),
    "feedback.delete_feedback_by_run": (34, 32, 45, 35),
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
