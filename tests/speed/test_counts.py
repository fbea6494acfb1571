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
    "users.get_user_by_id": (23, 25, 34, 30),
    "users.get_user_by_email": (26, 28, 39, 33),
    "users.get_user_by_oauth": (24, 26, 36, 31),
    "users.get_first_admin": (22, 24, 32, 29),
    "users.count_users": (23, 25, 32, 30),
    "users.count_admin_users": (23, 25, 32, 30),
    "users.create_user": (41, 40, 60, 46),
    "users.update_user": (133, 148, 210, 177),
    "runs.get_run": (28, 30, 40, 35),
    "runs.get_runs 20": (171, 172, 222, 178),
    "runs.list_runs_by_thread 50": (319, 321, 431, 326),
    "runs.list_runs_before 50": (328, 330, 440, 335),
    "runs.aggregate_tokens_by_thread 190": (2304, 2306, 2314, 2311),
    "runs.list_pending": (25, 27, 34, 32),
    "runs.list_inflight 10": (75, 77, 104, 82),
    "runs.list_expired_inflight": (76, 78, 107, 83),
    "runs.create_run": (56, 55, 89, 61),
    "runs.admit_run": (67, 66, 150, 113),
    "runs.start_run": (25, 24, 35, 30),
    "runs.update_run_status": (28, 27, 46, 33),
    "runs.update_model_name": (28, 27, 39, 33),
    "runs.update_run_progress": (46, 45, 67, 51),
    "runs.update_run_completion": (48, 47, 75, 53),
    "runs.finalize_run": (28, 27, 43, 33),
    "runs.renew_lease": (30, 29, 87, 73),
    "runs.request_cancel": (27, 26, 77, 67),
    "runs.claim_expired_run": (28, 27, 43, 33),
    "runs.delete_run": (22, 22, 30, 27),
    "run_events.list_messages 50 of 2000": (253, 255, 314, 260),
    "run_events.list_messages_by_run 50": (255, 257, 317, 262),
    "run_events.list_events 500": (2278, 2280, 2790, 2285),
    "run_events.last_ai_seq_by_run 20": (50, 51, 61, 57),
    "run_events.count_messages 2000": (25, 27, 35, 32),
    "run_events.append": (50, 47, 134, 110),
    "run_events.append_batch 1": (48, 45, 132, 108),
    "run_events.append_batch 10": (191, 188, 401, 258),
    "run_events.append_batch 100": (1271, 1268, 2741, 1338),
    "run_events.append_batch 1000": (12071, 12068, 26141, 12138),
    "run_events.append_batch 10, two threads": (198, 251, 432, 284),
    "run_events.append_if_absent": (44, 74, 162, 126),
    "run_events.delete_by_run": (24, 24, 71, 64),
    "run_events.delete_by_thread": (22, 22, 68, 62),
    "threads.get_thread_meta": (24, 26, 36, 31),
    "threads.check_access": (24, 26, 34, 31),
    "threads.search_threads 100": (227, 229, 447, 234),
    "threads.search_threads 10, one filter": (49, 51, 89, 56),
    "threads.search_threads 10, three filters": (77, 81, 129, 91),
    "threads.create_thread_meta": (35, 34, 53, 40),
    "threads.update_thread_meta": (28, 27, 43, 33),
    "threads.merge_thread_metadata": (113, 130, 140, 131),
    "threads.update_owner": (28, 27, 39, 33),
    "threads.delete_thread": (22, 22, 30, 27),
    "feedback.get_feedback": (22, 24, 33, 29),
    "feedback.list_feedback_by_run 50": (26, 28, 87, 33),
    "feedback.list_feedback_by_thread 100": (25, 27, 136, 32),
    "feedback.latest_feedback_by_run_ids 20": (51, 52, 63, 58),
    "feedback.aggregate_feedback_by_run": (23, 25, 34, 30),
    "feedback.create_feedback": (33, 32, 50, 38),
    "feedback.upsert_feedback": (33, 32, 97, 73),
    "feedback.delete_feedback": (22, 22, 30, 27),
    "feedback.delete_feedback_by_run": (24, 24, 33, 29),
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
