-- The life of a run: admission, states, leases, cancelling.
--
-- A change of state is one compare-and-set: its WHERE says from which states it may come, and its
-- row count or its row says whether it came about. Times that are compared with a lease are the
-- database's.

-- name: runs.admit_run :optional
-- doc: Store a run that takes its thread's slot. No row: the slot, the id or the idempotency key
-- doc: is taken; an active row of another writer (admitted is NULL) holds the slot as well. A run
-- doc: that is not active needs no slot.
-- doc: The lease begins on the database's clock, or is the given time without lease_seconds.
-- plan: runs.ix_runs_thread_status
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
-- param lease_seconds: float?
-- column lease_expires_at: timestamp?
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
SELECT
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
    CASE
        WHEN :lease_seconds IS NULL THEN :lease_expires_at
        ELSE strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.6f seconds', :lease_seconds))
    END,
    :created_at,
    :updated_at,
    0, 0, 0, 0, 0, 0, 0, 0,
    '{}',
    TRUE
WHERE :status NOT IN ('pending', 'running')
OR NOT EXISTS (
    SELECT 1 FROM runs AS other
    WHERE other.thread_id = :thread_id
    AND other.status IN ('pending', 'running')
    AND COALESCE(other.admitted, TRUE)
)
ON CONFLICT DO NOTHING
RETURNING lease_expires_at;

-- name: runs.queue_for_thread :exec
-- doc: Wait in line with the others that make room in a thread. The place is the transaction's:
-- doc: whoever waited goes on when the one before has ended, and what it reads next is the outcome.
-- plan: none: the line is at the file's write lock
-- param thread_id: text
UPDATE runs SET status = status WHERE thread_id = :thread_id AND FALSE;

-- name: runs.lock_active_runs :many
-- doc: The active runs of a thread, locked, oldest first, each with the state of its lease: none,
-- doc: live or expired. Runs that were stored beside the slot are left out (plain=off), or not.
-- plan: runs.ix_runs_thread_status
-- param thread_id: text
-- param grace_seconds: float
-- variant plain: on | off
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
-- column lease: text
-- step lock
-- SQLite locks no rows: this changes nothing and takes the file's write lock, so that what is read
-- next stays true until the transaction ends.
UPDATE runs SET status = status WHERE thread_id = :thread_id AND FALSE;

-- step read
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
    updated_at,
    CASE
        WHEN lease_expires_at IS NULL THEN 'none'
        WHEN lease_expires_at < strftime(
            '%Y-%m-%d %H:%M:%f000', 'now', printf('-%.6f seconds', :grace_seconds)
        )
        THEN 'expired'
        ELSE 'live'
    END AS lease
FROM runs
WHERE thread_id = :thread_id
AND status IN ('pending', 'running')
/*[ plain=off */ AND COALESCE(admitted, TRUE) /*]*/
-- The plus keeps SQLite from walking the whole thread in this order.
ORDER BY +created_at, run_id;

-- name: runs.interrupt_runs :affected
-- doc: Interrupt those of the given runs that are active, to make room for a newer one.
-- plan: runs primary key
-- param run_ids: text[]
-- param error: text
-- param updated_at: timestamp
UPDATE runs
SET status = 'interrupted', error = :error, updated_at = :updated_at
WHERE run_id IN (SELECT value FROM json_each(:run_ids))
AND status IN ('pending', 'running');

-- name: runs.start_run :affected
-- doc: Start a run that is still pending.
-- plan: runs primary key
-- param run_id: text
-- param updated_at: timestamp
UPDATE runs
SET status = 'running', updated_at = :updated_at
WHERE run_id = :run_id AND status = 'pending';

-- name: runs.update_run_status :affected
-- doc: Change a run's state where that is allowed: pending to any, running to any but pending,
-- doc: interrupted to error, and each to itself. What is NULL is kept.
-- plan: runs primary key
-- param run_id: text
-- param status: text
-- param error: text?
-- param stop_reason: text?
-- param updated_at: timestamp
UPDATE runs
SET
    status = :status,
    error = COALESCE(:error, error),
    stop_reason = COALESCE(:stop_reason, stop_reason),
    updated_at = :updated_at
WHERE run_id = :run_id
AND (
    status = 'pending'
    OR status = :status
    OR (status = 'running' AND :status <> 'pending')
    OR (status = 'interrupted' AND :status = 'error')
);

-- name: runs.update_run_progress :affected
-- doc: Refresh the figures of a running run. What is NULL is kept; zero is zero.
-- plan: runs primary key
-- param run_id: text
-- param message_count: int?
-- param total_input_tokens: int?
-- param total_output_tokens: int?
-- param total_tokens: int?
-- param llm_call_count: int?
-- param lead_agent_tokens: int?
-- param subagent_tokens: int?
-- param middleware_tokens: int?
-- param token_usage_by_model: text?
-- param first_human_message: text?
-- param last_ai_message: text?
-- param updated_at: timestamp
UPDATE runs
SET
    message_count = COALESCE(:message_count, message_count),
    total_input_tokens = COALESCE(:total_input_tokens, total_input_tokens),
    total_output_tokens = COALESCE(:total_output_tokens, total_output_tokens),
    total_tokens = COALESCE(:total_tokens, total_tokens),
    llm_call_count = COALESCE(:llm_call_count, llm_call_count),
    lead_agent_tokens = COALESCE(:lead_agent_tokens, lead_agent_tokens),
    subagent_tokens = COALESCE(:subagent_tokens, subagent_tokens),
    middleware_tokens = COALESCE(:middleware_tokens, middleware_tokens),
    token_usage_by_model = COALESCE(:token_usage_by_model, token_usage_by_model),
    first_human_message = COALESCE(:first_human_message, first_human_message),
    last_ai_message = COALESCE(:last_ai_message, last_ai_message),
    updated_at = :updated_at
WHERE run_id = :run_id AND status = 'running';

-- name: runs.update_run_completion :affected
-- doc: Write a run's outcome with its figures, where runs.update_run_status would change the state.
-- doc: What is NULL is kept; zero is zero.
-- plan: runs primary key
-- param run_id: text
-- param status: text
-- param message_count: int?
-- param total_input_tokens: int?
-- param total_output_tokens: int?
-- param total_tokens: int?
-- param llm_call_count: int?
-- param lead_agent_tokens: int?
-- param subagent_tokens: int?
-- param middleware_tokens: int?
-- param token_usage_by_model: text?
-- param first_human_message: text?
-- param last_ai_message: text?
-- param error: text?
-- param updated_at: timestamp
UPDATE runs
SET
    status = :status,
    message_count = COALESCE(:message_count, message_count),
    total_input_tokens = COALESCE(:total_input_tokens, total_input_tokens),
    total_output_tokens = COALESCE(:total_output_tokens, total_output_tokens),
    total_tokens = COALESCE(:total_tokens, total_tokens),
    llm_call_count = COALESCE(:llm_call_count, llm_call_count),
    lead_agent_tokens = COALESCE(:lead_agent_tokens, lead_agent_tokens),
    subagent_tokens = COALESCE(:subagent_tokens, subagent_tokens),
    middleware_tokens = COALESCE(:middleware_tokens, middleware_tokens),
    token_usage_by_model = COALESCE(:token_usage_by_model, token_usage_by_model),
    first_human_message = COALESCE(:first_human_message, first_human_message),
    last_ai_message = COALESCE(:last_ai_message, last_ai_message),
    error = COALESCE(:error, error),
    updated_at = :updated_at
WHERE run_id = :run_id
AND (
    status = 'pending'
    OR status = :status
    OR (status = 'running' AND :status <> 'pending')
    OR (status = 'interrupted' AND :status = 'error')
);

-- name: runs.finalize_run :affected
-- doc: Write an active run's outcome, unless a cancel was asked for first.
-- plan: runs primary key
-- param run_id: text
-- param status: text
-- param error: text?
-- param stop_reason: text?
-- param updated_at: timestamp
UPDATE runs
SET
    status = :status,
    error = COALESCE(:error, error),
    stop_reason = COALESCE(:stop_reason, stop_reason),
    updated_at = :updated_at
WHERE run_id = :run_id
AND status IN ('pending', 'running')
AND cancel_action IS NULL;

-- name: runs.get_cancel_action :optional
-- doc: What was asked for a run. Neither an action nor a final state is ever taken back, so this
-- doc: still tells why runs.finalize_run wrote nothing.
-- plan: runs primary key
-- param run_id: text
-- column cancel_action: text?
SELECT cancel_action FROM runs WHERE run_id = :run_id;

-- name: runs.request_cancel :optional
-- doc: Ask for an active run to be cancelled; the first action asked for stays, and is given.
-- plan: runs primary key
-- param run_id: text
-- param action: text
-- param updated_at: timestamp
-- column cancel_action: text
UPDATE runs
SET
    cancel_action = COALESCE(cancel_action, :action),
    cancel_requested_at = COALESCE(cancel_requested_at, strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    updated_at = :updated_at
WHERE run_id = :run_id AND status IN ('pending', 'running')
RETURNING cancel_action;

-- name: runs.renew_lease :optional
-- doc: Put off the end of a lease, and tell of a cancel request. No row: the worker does not own
-- doc: the run, or the run is not active. The lease is counted on the database's clock, or is the
-- doc: given time without lease_seconds.
-- plan: runs primary key
-- param run_id: text
-- param owner_worker_id: text
-- param lease_seconds: float?
-- param lease_expires_at: timestamp?
-- param updated_at: timestamp
-- column cancel_action: text?
UPDATE runs
SET
    lease_expires_at = CASE
        WHEN :lease_seconds IS NULL THEN :lease_expires_at
        ELSE strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.6f seconds', :lease_seconds))
    END,
    updated_at = :updated_at
WHERE run_id = :run_id
AND owner_worker_id = :owner_worker_id
AND status IN ('pending', 'running')
RETURNING cancel_action;

-- name: runs.claim_expired_run :affected
-- doc: End an active run whose lease is missing, or older than grace_seconds ago. The condition is
-- doc: part of the write: a run that renewed meanwhile lives.
-- plan: runs primary key
-- param run_id: text
-- param grace_seconds: float
-- param error: text?
-- param stop_reason: text?
-- param updated_at: timestamp
UPDATE runs
SET
    status = 'error',
    error = COALESCE(:error, error),
    stop_reason = COALESCE(:stop_reason, stop_reason),
    updated_at = :updated_at
WHERE run_id = :run_id
AND status IN ('pending', 'running')
AND (
    lease_expires_at IS NULL
    OR lease_expires_at < strftime(
        '%Y-%m-%d %H:%M:%f000', 'now', printf('-%.6f seconds', :grace_seconds)
    )
);

-- name: runs.list_inflight :many
-- doc: What is pending or running in all threads, oldest first: created, then run_id. A lease that
-- doc: is missing counts as expired.
-- plan: runs.ix_runs_inflight
-- param before: timestamp
-- param grace_seconds: float
-- variant pending: off | on
-- variant before: off | on
-- variant expired: off | on
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
WHERE status IN ('pending', 'running')
/*[ pending=on */ AND status = 'pending' /*]*/
/*[ before=on */ AND created_at <= :before /*]*/
/*[ expired=on */
AND (
    lease_expires_at IS NULL
    OR lease_expires_at < strftime(
        '%Y-%m-%d %H:%M:%f000', 'now', printf('-%.6f seconds', :grace_seconds)
    )
)
/*]*/
/*[ kind=run */ AND operation_kind = 'run' /*]*/
ORDER BY created_at, run_id;
