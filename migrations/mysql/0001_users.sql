-- Accounts that may sign in.
--
-- Every statement may run again: MySQL commits each DDL statement on its own, so a run that was
-- cut off is simply repeated. The collation compares code point by code point, trailing spaces
-- included; its name is MariaDB's or MySQL's, each behind a comment that only that server reads.
-- depends:
-- transactional: false

CREATE TABLE IF NOT EXISTS users (
    id VARCHAR(36) NOT NULL,
    email VARCHAR(320) NOT NULL COMMENT 'as it was given',
    password_hash VARCHAR(128),
    system_role VARCHAR(16) NOT NULL COMMENT 'user, admin',
    created_at DATETIME(6) NOT NULL COMMENT 'UTC',
    oauth_provider VARCHAR(32),
    oauth_id VARCHAR(128),
    needs_setup TINYINT(1) NOT NULL,
    token_version BIGINT NOT NULL,
    email_key VARCHAR(320) COMMENT 'the e-mail in lower case; NULL until setup has seen the row',
    PRIMARY KEY (id),
    UNIQUE KEY ix_users_email (email),
    UNIQUE KEY uq_users_email_key (email_key),
    UNIQUE KEY idx_users_oauth_identity (oauth_provider, oauth_id),
    KEY ix_users_role_created (system_role, created_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
COMMENT='Accounts that may sign in';

-- A row here is locked by whoever must be alone: the first administrator is found and inserted
-- under the row first_admin. READ COMMITTED locks no gaps, so an empty result locks nothing.
CREATE TABLE IF NOT EXISTS user_locks (
    name VARCHAR(32) NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
COMMENT='Rows to lock, not to read';

INSERT IGNORE INTO user_locks (name) VALUES ('first_admin');
