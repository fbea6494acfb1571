-- name: settings.look :one
-- doc: What a connection works with.
SELECT
    @@session.time_zone AS zone,
    @@session.sql_mode AS sql_mode,
    @@session.character_set_connection AS charset,
    @@session.innodb_lock_wait_timeout AS lock_wait,
    @@session.autocommit AS autocommit;

-- name: settings.isolation :many
-- doc: The isolation level, under each name that the server has for it: MySQL 8 and MariaDB 11.1 know
--   transaction_isolation, every MariaDB tx_isolation.
SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation');
