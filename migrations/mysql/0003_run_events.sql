-- Run events: the ordered stream of a thread, and the counter that its seq comes from.
-- depends: 0002_runs

CREATE TABLE IF NOT EXISTS run_events (
    id BIGINT NOT NULL AUTO_INCREMENT,
    thread_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NULL,
    event_type VARCHAR(32) NOT NULL,
    category VARCHAR(16) NOT NULL,
    content LONGTEXT NOT NULL,
    event_metadata LONGTEXT NOT NULL,
    seq BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    -- 'text': content is the string itself; 'json': content is JSON text;
    -- NULL: written by DeerFlow, whose metadata says which of the two it is.
    content_format VARCHAR(8) NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uq_events_thread_seq (thread_id, seq),
    KEY ix_events_thread_cat_seq (thread_id, category, seq),
    KEY ix_events_run (thread_id, run_id, seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;

-- The highest seq that a thread ever had; it outlives the events, so that none is used twice.
CREATE TABLE IF NOT EXISTS run_event_counters (
    thread_id VARCHAR(64) NOT NULL,
    last_seq BIGINT NOT NULL,
    PRIMARY KEY (thread_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;

INSERT IGNORE INTO run_event_counters (thread_id, last_seq)
SELECT thread_id, MAX(seq)
FROM run_events
GROUP BY thread_id;
