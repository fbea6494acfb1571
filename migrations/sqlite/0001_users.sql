-- Accounts that may sign in.
--
-- Every statement may run again, and may meet a table that DeerFlow made: column names and types
-- are DeerFlow's. deerstore's own column is email_key.
-- depends:

CREATE TABLE IF NOT EXISTS users (
    id VARCHAR(36) NOT NULL,
    email VARCHAR(320) NOT NULL,            -- as it was given
    password_hash VARCHAR(128),
    system_role VARCHAR(16) NOT NULL,       -- user, admin
    created_at DATETIME NOT NULL,           -- text in UTC: YYYY-MM-DD HH:MM:SS.ffffff
    oauth_provider VARCHAR(32),
    oauth_id VARCHAR(128),
    needs_setup BOOLEAN NOT NULL,
    token_version INTEGER NOT NULL,
    -- The e-mail in lower case. NULL: an adopted account whose address differs from another's
    -- only by case, or a row of another writer that the next setup has not seen yet.
    email_key VARCHAR(320),
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX IF NOT EXISTS ix_users_email ON users (email);

-- One account per address, whatever its case.
CREATE UNIQUE INDEX IF NOT EXISTS uq_users_email_key ON users (email_key);

-- One account per OAuth identity; any number of accounts have none.
CREATE UNIQUE INDEX IF NOT EXISTS idx_users_oauth_identity ON users (oauth_provider, oauth_id)
WHERE oauth_provider IS NOT NULL AND oauth_id IS NOT NULL;

-- The oldest administrator, and the number of them.
CREATE INDEX IF NOT EXISTS ix_users_role_created ON users (system_role, created_at, id);
