-- Thumbs up and thumbs down: at most one per thread, run and user.
--
-- Every statement may run again, and may meet a table that DeerFlow made: column names and types
-- are DeerFlow's. deerstore's own column is admitted.
-- depends: 0002_runs

CREATE TABLE IF NOT EXISTS feedback (
    feedback_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64),
    message_id VARCHAR(64),
    rating BIGINT NOT NULL,                 -- 1 or -1
    comment TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    -- TRUE: deerstore's, held to the rule of one rating without a user for each thread and run.
    -- NULL: a row of another writer that the next setup has not seen yet.
    admitted BOOLEAN,
    PRIMARY KEY (feedback_id),
    CONSTRAINT uq_feedback_thread_run_user UNIQUE (thread_id, run_id, user_id)
);

-- "No user" is a user of its own: NULLs are distinct in the constraint above. Rows that are not
-- admitted yet are distinct here, and found by it.
CREATE UNIQUE INDEX IF NOT EXISTS uq_feedback_admitted ON feedback (admitted, thread_id, run_id)
WHERE user_id IS NULL;

-- DeerFlow's indexes; those on thread and run also serve the lists.
CREATE INDEX IF NOT EXISTS ix_feedback_run_id ON feedback (run_id);
CREATE INDEX IF NOT EXISTS ix_feedback_thread_id ON feedback (thread_id);
CREATE INDEX IF NOT EXISTS ix_feedback_user_id ON feedback (user_id);
