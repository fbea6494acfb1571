-- Runs: one row per run of a thread.
--
-- The JSON columns have DeerFlow's type JSON, whose affinity in SQLite is NUMERIC: the text 1.0
-- would become the integer 1. kwargs may be a bare number; such text is stored as a BLOB.
--
-- A filter by owner is written +user_id: it narrows a thread's rows. Without statistics SQLite would
-- rather walk all rows of the user.

-- name: runs.create_run :affected
-- doc: Store a run beside whatever the thread does; it does not take the thread's slot.
-- doc: 0 rows: its id or its idempotency key is taken, or an adopted database allows one active
-- doc: run per thread only.
-- plan: runs, insert
-- param run_id: text
-- param thread_id: text
-- param assistant_id: text?
-- param user_id: text?
-- param status: text
-- param operation_kind: text
-- param idempotency_key: text?
-- param model_name: text?
-- param multitask_strategy: text
-- param metadata_json: text
-- param kwargs_json: text
-- param error: text?
-- param stop_reason: text?
-- param follow_up_to_run_id: text?
-- param owner_worker_id: text?
-- param lease_expires_at: timestamp?
-- param created_at: timestamp
-- param updated_at: timestamp
INSERT INTO runs (
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    created_at,
    updated_at,
    message_count,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    admitted
)
VALUES (
    :run_id,
    :thread_id,
    :assistant_id,
    :user_id,
    :status,
    :operation_kind,
    :idempotency_key,
    :model_name,
    :multitask_strategy,
    :metadata_json,
    CASE WHEN substr(:kwargs_json, 1, 1) GLOB '[-0-9]'
        THEN CAST(:kwargs_json AS BLOB) ELSE :kwargs_json END,
    :error,
    :stop_reason,
    :follow_up_to_run_id,
    :owner_worker_id,
    :lease_expires_at,
    :created_at,
    :updated_at,
    0, 0, 0, 0, 0, 0, 0, 0,
    '{}',
    FALSE
)
ON CONFLICT DO NOTHING;

-- name: runs.find_create_conflicts :one
-- doc: Which of a new run's keys are taken, and whether its thread is.
-- plan: runs primary key, runs.uq_runs_idempotency_key, runs.ix_runs_thread_status
-- param run_id: text
-- param thread_id: text
-- param idempotency_key: text?
-- column id_taken: bool
-- column key_taken: bool
-- column thread_taken: bool
SELECT
    EXISTS (SELECT 1 FROM runs WHERE run_id = :run_id) AS id_taken,
    EXISTS (SELECT 1 FROM runs WHERE idempotency_key = :idempotency_key) AS key_taken,
    EXISTS (
        SELECT 1 FROM runs
        WHERE thread_id = :thread_id AND status IN ('pending', 'running') AND run_id <> :run_id
    ) AS thread_taken;

-- name: runs.get_run :optional
-- doc: One run by its primary key.
-- plan: runs primary key
-- param run_id: text
-- param user_id: text
-- variant owner: off | on
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE run_id = :run_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: runs.get_run_by_key :optional
-- doc: The run that an idempotency key made.
-- plan: runs.uq_runs_idempotency_key
-- param idempotency_key: text
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE idempotency_key = :idempotency_key;

-- name: runs.get_runs :many
-- doc: Those of the given runs that belong to the thread.
-- plan: runs primary key; the plus keeps the planner from the index of the thread's runs
-- param thread_id: text
-- param run_ids: text[]
-- param user_id: text
-- variant owner: off | on
-- variant kind: any | run
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE +thread_id = :thread_id
AND run_id IN (SELECT value FROM json_each(:run_ids))
/*[ owner=on */ AND +user_id = :user_id /*]*/
/*[ kind=run */ AND operation_kind = 'run' /*]*/;

-- name: runs.list_runs_by_thread :many
-- doc: A page of a thread's runs, newest first: created, then run_id descending.
-- plan: runs.ix_runs_thread_created, backwards
-- param thread_id: text
-- param user_id: text
-- param limit: int
-- param offset: int
-- variant owner: off | on
-- variant kind: any | run
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE thread_id = :thread_id
/*[ owner=on */ AND +user_id = :user_id /*]*/
/*[ kind=run */ AND operation_kind = 'run' /*]*/
ORDER BY created_at DESC, run_id DESC
LIMIT :limit OFFSET :offset;

-- name: runs.list_runs_before :many
-- doc: The next page of a thread's runs after the run before_run_id, in the same order.
-- plan: runs.ix_runs_thread_created, backwards from the mark
-- param thread_id: text
-- param before_run_id: text
-- param user_id: text
-- param limit: int
-- variant owner: off | on
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE thread_id = :thread_id
AND (created_at, run_id) < (
    SELECT mark.created_at, mark.run_id
    FROM runs AS mark
    WHERE mark.run_id = :before_run_id AND mark.thread_id = :thread_id
)
/*[ owner=on */ AND +user_id = :user_id /*]*/
ORDER BY created_at DESC, run_id DESC
LIMIT :limit;

-- name: runs.list_regenerate_sources :many
-- doc: Metadata of a thread's successful runs that may name the run they regenerate. The text is
-- doc: only searched: a stored value of any shape must not fail, so the caller reads the JSON.
-- plan: runs.ix_runs_thread_status
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- column metadata_json: text
SELECT metadata_json
FROM runs
WHERE thread_id = :thread_id
AND status = 'success'
AND operation_kind = 'run'
AND CAST(metadata_json AS TEXT) LIKE '%"regenerate_from_run_id"%'
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: runs.list_edit_regenerate_runs :many
-- doc: A thread's runs whose metadata may say that they replay an edit, oldest first: created, then
-- doc: run_id. The caller reads the JSON, as with runs.list_regenerate_sources.
-- plan: runs.ix_runs_thread_created
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- column run_id: text
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column status: text
-- column operation_kind: text
-- column idempotency_key: text?
-- column model_name: text?
-- column multitask_strategy: text
-- column metadata_json: text
-- column kwargs_json: text
-- column error: text?
-- column stop_reason: text?
-- column message_count: int
-- column first_human_message: text?
-- column last_ai_message: text?
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column total_tokens: int
-- column llm_call_count: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
-- column follow_up_to_run_id: text?
-- column owner_worker_id: text?
-- column lease_expires_at: timestamp?
-- column cancel_action: text?
-- column cancel_requested_at: timestamp?
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    run_id,
    thread_id,
    assistant_id,
    user_id,
    status,
    operation_kind,
    idempotency_key,
    model_name,
    multitask_strategy,
    metadata_json,
    kwargs_json,
    error,
    stop_reason,
    message_count,
    first_human_message,
    last_ai_message,
    total_input_tokens,
    total_output_tokens,
    total_tokens,
    llm_call_count,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model,
    follow_up_to_run_id,
    owner_worker_id,
    lease_expires_at,
    cancel_action,
    cancel_requested_at,
    created_at,
    updated_at
FROM runs
WHERE thread_id = :thread_id
AND CAST(metadata_json AS TEXT) LIKE '%"replay_kind"%'
/*[ owner=on */ AND +user_id = :user_id /*]*/
ORDER BY created_at, run_id;

-- name: runs.update_model_name :affected
-- doc: Set the name of the model that a run uses.
-- plan: runs primary key
-- param run_id: text
-- param model_name: text?
-- param updated_at: timestamp
UPDATE runs
SET model_name = :model_name, updated_at = :updated_at
WHERE run_id = :run_id;

-- name: runs.list_token_usage :many
-- doc: The figures of a thread's finished runs (active: also of its running ones), to be summed.
-- plan: runs.ix_runs_thread_status
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- variant active: off | on
-- column model_name: text?
-- column total_tokens: int
-- column total_input_tokens: int
-- column total_output_tokens: int
-- column lead_agent_tokens: int
-- column subagent_tokens: int
-- column middleware_tokens: int
-- column token_usage_by_model: text?
SELECT
    model_name,
    total_tokens,
    total_input_tokens,
    total_output_tokens,
    lead_agent_tokens,
    subagent_tokens,
    middleware_tokens,
    token_usage_by_model
FROM runs
WHERE thread_id = :thread_id
AND status IN ('success', 'error' /*[ active=on */, 'running' /*]*/)
AND operation_kind = 'run'
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: runs.overwrite_run :affected
-- doc: Replace what a run was created with, where runs.update_run_status would change the state:
-- doc: a final run is never opened again. Its figures, a cancel request and created_at stay. The
-- doc: run takes its thread's slot while it is active.
-- plan: runs primary key
-- param run_id: text
-- param thread_id: text
-- param assistant_id: text?
-- param user_id: text?
-- param status: text
-- param operation_kind: text
-- param idempotency_key: text?
-- param model_name: text?
-- param multitask_strategy: text
-- param metadata_json: text
-- param kwargs_json: text
-- param error: text?
-- param stop_reason: text?
-- param follow_up_to_run_id: text?
-- param owner_worker_id: text?
-- param lease_expires_at: timestamp?
-- param updated_at: timestamp
UPDATE runs
SET
    status = :status,
    thread_id = :thread_id,
    assistant_id = :assistant_id,
    user_id = :user_id,
    operation_kind = :operation_kind,
    idempotency_key = :idempotency_key,
    model_name = :model_name,
    multitask_strategy = :multitask_strategy,
    metadata_json = :metadata_json,
    kwargs_json = CASE WHEN substr(:kwargs_json, 1, 1) GLOB '[-0-9]'
        THEN CAST(:kwargs_json AS BLOB) ELSE :kwargs_json END,
    error = :error,
    stop_reason = :stop_reason,
    follow_up_to_run_id = :follow_up_to_run_id,
    owner_worker_id = :owner_worker_id,
    lease_expires_at = :lease_expires_at,
    updated_at = :updated_at,
    admitted = TRUE
WHERE run_id = :run_id
AND (
    status = 'pending'
    OR status = :status
    OR (status = 'running' AND :status <> 'pending')
    OR (status = 'interrupted' AND :status = 'error')
);

-- name: runs.delete_run :affected
-- doc: Remove one run.
-- plan: runs primary key
-- param run_id: text
-- param user_id: text
-- variant owner: off | on
DELETE FROM runs
WHERE run_id = :run_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: runs.delete_runs_by_thread :affected
-- doc: Remove all runs of a thread.
-- plan: runs.ix_runs_thread_id
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
DELETE FROM runs
WHERE thread_id = :thread_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: runs.count_runs :value
-- doc: How many runs there are.
-- plan: runs, an index scan: counted on demand only
-- column count: int
SELECT COUNT(*) AS count FROM runs;
