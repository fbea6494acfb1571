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
#: PostgreSQL, aiomysql, asyncmy. Newer releases of Python enter fewer.
FUNCTION_CALLS = {
    "users.get_user_by_id": (33, 33, 51, 47),
    "users.get_user_by_email": (39, 35, 59, 53),
    "users.get_user_by_oauth": (33, 33, 52, 47),
    "users.get_first_admin": (30, 30, 47, 44),
    "users.count_users": (30, 30, 38, 36),
    "users.count_admin_users": (30, 30, 38, 36),
    "users.create_user": (62, 55, 78, 64),
    "users.update_user": (181, 180, 273, 240),
    "runs.get_run": (38, 38, 79, 74),
    "runs.get_runs 20": (200, 200, 280, 236),
    "runs.list_runs_by_thread 50": (330, 330, 471, 366),
    "runs.list_runs_before 50": (344, 340, 481, 376),
    "runs.aggregate_tokens_by_thread 190": (2313, 2313, 2329, 2326),
    "runs.list_pending": (33, 33, 71, 69),
    "runs.list_inflight 10": (83, 83, 141, 119),
    "runs.list_expired_inflight": (85, 85, 145, 121),
    "runs.create_run": (84, 76, 110, 82),
    "runs.admit_run": (101, 93, 183, 146),
    "runs.start_run": (34, 31, 41, 36),
    "runs.update_run_status": (43, 36, 58, 45),
    "runs.update_model_name": (38, 35, 46, 40),
    "runs.update_run_progress": (66, 63, 84, 68),
    "runs.update_run_completion": (74, 67, 98, 76),
    "runs.finalize_run": (39, 36, 51, 41),
    "runs.renew_lease": (46, 39, 102, 88),
    "runs.request_cancel": (38, 35, 91, 81),
    "runs.claim_expired_run": (39, 36, 51, 41),
    "runs.delete_run": (31, 29, 36, 33),
    "run_events.list_messages 50 of 2000": (288, 288, 357, 303),
    "run_events.list_messages_by_run 50": (292, 292, 362, 307),
    "run_events.list_events 500": (2540, 2540, 3060, 2555),
    "run_events.last_ai_seq_by_run 20": (78, 78, 89, 85),
    "run_events.count_messages 2000": (34, 34, 43, 40),
    "run_events.append": (106, 92, 188, 164),
    "run_events.append_batch 1": (105, 91, 187, 163),
    "run_events.append_batch 10": (236, 223, 455, 312),
    "run_events.append_batch 100": (1451, 1438, 3020, 1617),
    "run_events.append_batch 1000": (13601, 13588, 28670, 14667),
    "run_events.append_batch 10, two threads": (253, 296, 494, 346),
    "run_events.append_if_absent": (70, 97, 197, 161),
    "run_events.delete_by_run": (40, 32, 83, 76),
    "run_events.delete_by_thread": (38, 29, 80, 74),
    "threads.get_thread_meta": (34, 34, 52, 47),
    "threads.check_access": (34, 34, 43, 40),
    "threads.search_threads 100": (246, 242, 472, 259),
    "threads.search_threads 10, one filter": (68, 64, 114, 81),
    "threads.search_threads 10, three filters": (105, 101, 162, 124),
    "threads.create_thread_meta": (53, 46, 68, 55),
    "threads.update_thread_meta": (38, 35, 50, 40),
    "threads.merge_thread_metadata": (129, 141, 151, 142),
    "threads.update_owner": (39, 36, 47, 41),
    "threads.delete_thread": (31, 29, 36, 33),
    "feedback.get_feedback": (32, 32, 49, 45),
    "feedback.list_feedback_by_run 50": (37, 37, 104, 50),
    "feedback.list_feedback_by_thread 100": (36, 36, 153, 49),
    "feedback.latest_feedback_by_run_ids 20": (80, 80, 98, 93),
    "feedback.aggregate_feedback_by_run": (33, 33, 45, 41),
    "feedback.create_feedback": (50, 47, 64, 52),
    "feedback.upsert_feedback": (55, 48, 125, 101),
    "feedback.delete_feedback": (31, 29, 36, 33),
    "feedback.delete_feedback_by_run": (34, 32, 40, 36),
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
