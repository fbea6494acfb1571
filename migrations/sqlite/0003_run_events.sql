-- Run events: the ordered stream of a thread, and the counter that its seq comes from.
-- depends: 0002_runs

CREATE TABLE IF NOT EXISTS run_events (
    id INTEGER NOT NULL,
    thread_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64),
    event_type VARCHAR(32) NOT NULL,
    category VARCHAR(16) NOT NULL,
    content TEXT NOT NULL,
    event_metadata JSON NOT NULL,
    seq INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    -- 'text': content is the string itself; 'json': content is JSON text;
    -- NULL: written by DeerFlow, whose metadata says which of the two it is.
    content_format VARCHAR(8),
    PRIMARY KEY (id),
    CONSTRAINT uq_events_thread_seq UNIQUE (thread_id, seq)
);

CREATE INDEX IF NOT EXISTS ix_events_thread_cat_seq ON run_events (thread_id, category, seq);

CREATE INDEX IF NOT EXISTS ix_events_run ON run_events (thread_id, run_id, seq);

-- The highest seq that a thread ever had; it outlives the events, so that none is used twice.
CREATE TABLE IF NOT EXISTS run_event_counters (
    thread_id VARCHAR(64) NOT NULL,
    last_seq INTEGER NOT NULL,
    PRIMARY KEY (thread_id)
) WITHOUT ROWID;

INSERT INTO run_event_counters (thread_id, last_seq)
SELECT thread_id, MAX(seq)
FROM run_events
WHERE TRUE
GROUP BY thread_id
ON CONFLICT (thread_id) DO NOTHING;
