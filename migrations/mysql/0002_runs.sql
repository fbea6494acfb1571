-- One row per run: what ran, for whom, how it ended, what it cost.
--
-- The thread's slot is a unique key over a generated column, since MySQL has no partial indexes:
-- it holds the thread's id while an admitted run is active, and NULL, which is never a duplicate,
-- as soon as the status is final, whoever writes it.
--
-- DeerFlow's index over thread_id alone is left out: DeerFlow has no MySQL, and two others begin
-- with that column.
-- depends: 0001_users
-- transactional: false

CREATE TABLE IF NOT EXISTS runs (
    run_id VARCHAR(64) NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    assistant_id VARCHAR(128),
    user_id VARCHAR(64),
    status VARCHAR(20) NOT NULL COMMENT 'pending, running, success, error, timeout, interrupted',
    operation_kind VARCHAR(32) DEFAULT 'run' NOT NULL COMMENT 'another kind reserves the thread',
    idempotency_key VARCHAR(255),
    model_name VARCHAR(128),
    multitask_strategy VARCHAR(20) NOT NULL,
    metadata_json LONGTEXT NOT NULL,
    kwargs_json LONGTEXT NOT NULL,
    error LONGTEXT,
    stop_reason VARCHAR(50),
    message_count BIGINT NOT NULL,
    first_human_message LONGTEXT,
    last_ai_message LONGTEXT,
    total_input_tokens BIGINT NOT NULL,
    total_output_tokens BIGINT NOT NULL,
    total_tokens BIGINT NOT NULL,
    llm_call_count BIGINT NOT NULL,
    lead_agent_tokens BIGINT NOT NULL,
    subagent_tokens BIGINT NOT NULL,
    middleware_tokens BIGINT NOT NULL,
    token_usage_by_model LONGTEXT DEFAULT ('{}') NOT NULL,
    follow_up_to_run_id VARCHAR(64),
    owner_worker_id VARCHAR(128) COMMENT 'the worker that holds the lease',
    lease_expires_at DATETIME(6) COMMENT 'UTC, on the database''s clock',
    cancel_action VARCHAR(20) COMMENT 'interrupt, rollback: the first request wins',
    cancel_requested_at DATETIME(6) COMMENT 'UTC',
    created_at DATETIME(6) NOT NULL COMMENT 'UTC',
    updated_at DATETIME(6) NOT NULL COMMENT 'UTC',
    admitted TINYINT(1) COMMENT '1: holds the slot while active; 0: beside it; NULL: until setup',
    active_thread_id VARCHAR(64) AS (
        CASE WHEN admitted = 1 AND status IN ('pending', 'running') THEN thread_id END
    ) STORED COMMENT 'the thread whose slot this row holds',
    PRIMARY KEY (run_id),
    UNIQUE KEY uq_runs_idempotency_key (idempotency_key),
    UNIQUE KEY uq_runs_admitted (active_thread_id),
    KEY ix_runs_thread_created (thread_id, created_at, run_id),
    KEY ix_runs_inflight (status, created_at, run_id),
    KEY ix_runs_thread_status (thread_id, status),
    KEY ix_runs_user_id (user_id),
    KEY ix_runs_lease (lease_expires_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
COMMENT='One row per run';
