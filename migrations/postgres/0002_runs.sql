-- One row per run: what ran, for whom, how it ended, what it cost.
--
-- Every statement may run again, and may meet a table that DeerFlow made: column names and types
-- are DeerFlow's. deerstore's own column is admitted.
-- depends: 0001_users

CREATE TABLE IF NOT EXISTS runs (
    run_id VARCHAR(64) NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    assistant_id VARCHAR(128),
    user_id VARCHAR(64),
    status VARCHAR(20) NOT NULL,            -- pending, running, success, error, timeout, interrupted
    operation_kind VARCHAR(32) DEFAULT 'run' NOT NULL,  -- another kind reserves the thread
    idempotency_key VARCHAR(255),
    model_name VARCHAR(128),
    multitask_strategy VARCHAR(20) NOT NULL,
    metadata_json JSON NOT NULL,
    kwargs_json JSON NOT NULL,
    error TEXT,
    stop_reason VARCHAR(50),
    message_count BIGINT NOT NULL,
    first_human_message TEXT,
    last_ai_message TEXT,
    total_input_tokens BIGINT NOT NULL,
    total_output_tokens BIGINT NOT NULL,
    total_tokens BIGINT NOT NULL,
    llm_call_count BIGINT NOT NULL,
    lead_agent_tokens BIGINT NOT NULL,
    subagent_tokens BIGINT NOT NULL,
    middleware_tokens BIGINT NOT NULL,
    token_usage_by_model JSON DEFAULT '{}' NOT NULL,
    follow_up_to_run_id VARCHAR(64),
    owner_worker_id VARCHAR(128),           -- the worker that holds the lease
    lease_expires_at TIMESTAMPTZ,           -- on the database's clock
    cancel_action VARCHAR(20),              -- interrupt, rollback: the first request wins
    cancel_requested_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    -- TRUE: holds its thread's slot while it is active. FALSE: plainly stored beside it.
    -- NULL: a row of another writer that the next setup has not seen yet.
    admitted BOOLEAN,
    PRIMARY KEY (run_id)
);

CREATE UNIQUE INDEX IF NOT EXISTS uq_runs_idempotency_key ON runs (idempotency_key);

-- The thread's slot: one admitted run at a time. A final status frees it, whoever writes it.
CREATE UNIQUE INDEX IF NOT EXISTS uq_runs_admitted ON runs (thread_id)
WHERE admitted AND status IN ('pending', 'running');

-- A thread's history, newest first: read backwards. Ids order by code point in any database.
CREATE INDEX IF NOT EXISTS ix_runs_thread_created
ON runs (thread_id, created_at, run_id COLLATE "C");

-- What is in flight in all threads, oldest first: the recovery scan.
CREATE INDEX IF NOT EXISTS ix_runs_inflight ON runs (created_at, run_id COLLATE "C")
WHERE status IN ('pending', 'running');

-- DeerFlow's indexes, so that a new database and an adopted one have one shape.
CREATE INDEX IF NOT EXISTS ix_runs_thread_id ON runs (thread_id);
CREATE INDEX IF NOT EXISTS ix_runs_thread_status ON runs (thread_id, status);
CREATE INDEX IF NOT EXISTS ix_runs_user_id ON runs (user_id);
CREATE INDEX IF NOT EXISTS ix_runs_lease ON runs (lease_expires_at);
