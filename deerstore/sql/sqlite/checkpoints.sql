-- Checkpoints, as far as deerstore asks about them: LangGraph's saver reads and writes them.

-- name: checkpoints.delete_writes :affected
-- doc: Remove the pending writes of a thread's checkpoints.
-- plan: writes primary key
-- param thread_id: text
DELETE FROM writes
WHERE thread_id = :thread_id;

-- name: checkpoints.delete_checkpoints :affected
-- doc: Remove a thread's checkpoints with the contents that are kept apart; counts the former.
-- plan: checkpoints primary key
-- param thread_id: text
DELETE FROM checkpoints
WHERE thread_id = :thread_id;

-- name: checkpoints.count_checkpoints :value
-- doc: How many checkpoints there are, of all threads.
-- plan: checkpoints, all rows
-- column checkpoints: int
SELECT COUNT(*) AS checkpoints
FROM checkpoints;
