-- The rule of one rating without a user holds for admitted rows only, so that DeerFlow's own second
-- rating is not refused: setup() resolves it.
--
-- For databases that were made before 0005 had it; setup() has added the column admitted to them.
-- Every statement may run again.
-- depends: 0005_feedback

CREATE UNIQUE INDEX IF NOT EXISTS uq_feedback_admitted ON feedback (admitted, thread_id, run_id)
WHERE user_id IS NULL;

DROP INDEX IF EXISTS uq_feedback_thread_run_nobody;
