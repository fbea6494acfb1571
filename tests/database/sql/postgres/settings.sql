-- name: settings.look :one
-- doc: What a connection works with.
SELECT
    current_setting('TimeZone') AS zone,
    current_setting('transaction_isolation') AS isolation,
    current_setting('lock_timeout') AS lock_timeout;
