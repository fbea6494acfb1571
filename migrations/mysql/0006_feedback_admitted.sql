-- The rule of one rating without a user holds for admitted rows only, so that another writer's second
-- rating is not refused: setup() resolves it.
--
-- For databases that were made before 0005 had it; setup() has added the column admitted to them.
-- The statement may run again: it says what the column is to be.
-- depends: 0005_feedback
-- transactional: false

ALTER TABLE feedback
MODIFY COLUMN user_key VARCHAR(65) AS (
    CASE WHEN user_id IS NOT NULL THEN CONCAT('=', user_id) WHEN admitted = 1 THEN '-' END
) STORED COMMENT 'the user, or nobody, as one value';
