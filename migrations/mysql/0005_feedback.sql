-- Thumbs up and thumbs down: at most one per thread, run and user.
--
-- "No user" is a user of its own, but NULLs are distinct in a unique key: user_key is '-' for
-- nobody and '=' with the id for somebody. It is NULL for nobody's rating of another writer, until
-- the next setup admits it.
-- depends: 0002_runs
-- transactional: false

CREATE TABLE IF NOT EXISTS feedback (
    feedback_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64),
    message_id VARCHAR(64),
    rating BIGINT NOT NULL COMMENT '1 or -1',
    comment LONGTEXT,
    created_at DATETIME(6) NOT NULL COMMENT 'UTC',
    admitted TINYINT(1) COMMENT '1: held to the rule of one rating; NULL: until setup',
    user_key VARCHAR(65) AS (
        CASE WHEN user_id IS NOT NULL THEN CONCAT('=', user_id) WHEN admitted = 1 THEN '-' END
    ) STORED COMMENT 'the user, or nobody, as one value',
    PRIMARY KEY (feedback_id),
    UNIQUE KEY uq_feedback_thread_run_user (thread_id, run_id, user_key),
    KEY ix_feedback_run_id (run_id),
    KEY ix_feedback_thread_id (thread_id),
    KEY ix_feedback_user_id (user_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
COMMENT='At most one rating per thread, run and user';
