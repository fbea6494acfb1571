-- A thread's end: every row of it, on the surfaces that are tables of deerstore.
--
-- The event counter stays, so that a number is never given twice; the index of its metadata goes
-- with the metadata.

-- name: purge.find_meta_owner :optional
-- doc: Whose thread it is, by its metadata.
-- plan: threads_meta primary key
-- param thread_id: text
-- column user_id: text?
SELECT user_id
FROM threads_meta
WHERE thread_id = :thread_id;

-- name: purge.find_run_owners :many
-- doc: Whose thread it is where it has no metadata: by its runs and its events.
-- plan: runs by thread, run_events by thread
-- param thread_id: text
-- column user_id: text?
SELECT user_id
FROM runs
WHERE thread_id = :thread_id
UNION DISTINCT
SELECT user_id
FROM run_events
WHERE thread_id = :thread_id;

-- name: purge.delete_feedback :affected
-- doc: Remove a thread's feedback.
-- plan: feedback by thread
-- param thread_id: text
DELETE FROM feedback
WHERE thread_id = :thread_id;

-- name: purge.delete_run_events :affected
-- doc: Remove a thread's events.
-- plan: run_events by thread
-- param thread_id: text
DELETE FROM run_events
WHERE thread_id = :thread_id;

-- name: purge.delete_runs :affected
-- doc: Remove a thread's runs.
-- plan: runs by thread
-- param thread_id: text
DELETE FROM runs
WHERE thread_id = :thread_id;

-- name: purge.delete_thread_meta :affected
-- doc: Remove a thread's metadata, the last that is left of it.
-- plan: threads_meta primary key
-- param thread_id: text
DELETE FROM threads_meta
WHERE thread_id = :thread_id;
