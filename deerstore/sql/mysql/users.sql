-- Accounts. An address is one address whatever its case: email_key is its lower case, made by the
-- caller, since no two engines fold letters alike.

-- name: users.create_user :affected
-- doc: Store a new account. 0 rows: its id, its address or its OAuth identity is taken, or a row
-- doc: of another writer, which has no key yet, has the address.
-- plan: users.uq_users_email_key, for the rows without a key
-- param id: text
-- param email: text
-- param email_key: text
-- param password_hash: text?
-- param system_role: text
-- param created_at: timestamp
-- param oauth_provider: text?
-- param oauth_id: text?
-- param needs_setup: bool
-- param token_version: int
INSERT IGNORE INTO users (
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version,
    email_key
)
SELECT
    :id,
    :email,
    :password_hash,
    :system_role,
    :created_at,
    :oauth_provider,
    :oauth_id,
    :needs_setup,
    :token_version,
    :email_key
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1 FROM users AS other
    WHERE other.email_key IS NULL AND LOWER(other.email) = :email_key
);

-- name: users.create_first_admin :affected
-- doc: Store the first administrator. 0 rows: there is one, or the account's keys are taken.
-- doc: A lock makes the test and the insert one step.
-- plan: users.ix_users_role_created, for the test
-- param id: text
-- param email: text
-- param email_key: text
-- param password_hash: text?
-- param created_at: timestamp
-- param oauth_provider: text?
-- param oauth_id: text?
-- param needs_setup: bool
-- param token_version: int
-- step lock
-- The row's lock is the transaction's: whoever comes second waits for the first one's outcome, and
-- its INSERT then reads what was committed meanwhile.
INSERT INTO user_locks (name) VALUES ('first_admin') ON DUPLICATE KEY UPDATE name = VALUES(name);

-- step insert
INSERT IGNORE INTO users (
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version,
    email_key
)
SELECT
    :id,
    :email,
    :password_hash,
    'admin',
    :created_at,
    :oauth_provider,
    :oauth_id,
    :needs_setup,
    :token_version,
    :email_key
FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM users WHERE system_role = 'admin')
AND NOT EXISTS (
    SELECT 1 FROM users AS other
    WHERE other.email_key IS NULL AND LOWER(other.email) = :email_key
);

-- name: users.find_create_conflicts :one
-- doc: Which keys of a new account are taken.
-- plan: users: its primary key and its unique indexes, one look-up each
-- param id: text
-- param email: text
-- param email_key: text
-- param oauth_provider: text?
-- param oauth_id: text?
-- column email_taken: bool
-- column oauth_taken: bool
-- column id_taken: bool
-- column admin_exists: bool
SELECT
    EXISTS (SELECT 1 FROM users WHERE email = :email)
    OR EXISTS (SELECT 1 FROM users WHERE email_key = :email_key)
    OR EXISTS (
        SELECT 1 FROM users WHERE email_key IS NULL AND LOWER(email) = :email_key
    ) AS email_taken,
    EXISTS (
        SELECT 1 FROM users WHERE oauth_provider = :oauth_provider AND oauth_id = :oauth_id
    ) AS oauth_taken,
    EXISTS (SELECT 1 FROM users WHERE id = :id) AS id_taken,
    EXISTS (SELECT 1 FROM users WHERE system_role = 'admin') AS admin_exists;

-- name: users.get_user_by_id :optional
-- doc: One account by its id.
-- plan: users primary key
-- param id: text
-- column id: text
-- column email: text
-- column password_hash: text?
-- column system_role: text
-- column created_at: timestamp
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool
-- column token_version: int
SELECT
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version
FROM users
WHERE id = :id;

-- name: users.get_user_by_email :optional
-- doc: The account with this address: the exact spelling first, else the address in any case.
-- plan: users.ix_users_email, users.uq_users_email_key
-- param email: text
-- param email_key: text
-- column id: text
-- column email: text
-- column password_hash: text?
-- column system_role: text
-- column created_at: timestamp
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool
-- column token_version: int
SELECT
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version
FROM users
WHERE email = :email OR email_key = :email_key
ORDER BY CASE WHEN email = :email THEN 0 ELSE 1 END, created_at, id
LIMIT 1;

-- name: users.get_unkeyed_user_by_email :optional
-- doc: The oldest account with this address in any case, among those that have no key: adopted
-- doc: ones that differ only by case, and rows of another writer since the last setup.
-- plan: users.uq_users_email_key, the rows without a key
-- param email_key: text
-- column id: text
-- column email: text
-- column password_hash: text?
-- column system_role: text
-- column created_at: timestamp
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool
-- column token_version: int
SELECT
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version
FROM users
WHERE email_key IS NULL AND LOWER(email) = :email_key
ORDER BY created_at, id
LIMIT 1;

-- name: users.get_user_by_oauth :optional
-- doc: The account with this OAuth identity.
-- plan: users.idx_users_oauth_identity
-- param oauth_provider: text
-- param oauth_id: text
-- column id: text
-- column email: text
-- column password_hash: text?
-- column system_role: text
-- column created_at: timestamp
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool
-- column token_version: int
SELECT
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version
FROM users
WHERE oauth_provider = :oauth_provider AND oauth_id = :oauth_id;

-- name: users.get_first_admin :optional
-- doc: The oldest administrator: by created_at, then id.
-- plan: users.ix_users_role_created
-- column id: text
-- column email: text
-- column password_hash: text?
-- column system_role: text
-- column created_at: timestamp
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool
-- column token_version: int
SELECT
    id,
    email,
    password_hash,
    system_role,
    created_at,
    oauth_provider,
    oauth_id,
    needs_setup,
    token_version
FROM users
WHERE system_role = 'admin'
ORDER BY created_at, id
LIMIT 1;

-- name: users.update_user :one
-- doc: Change an account, but for its id and created_at, unless one of its keys is another account's.
-- doc: Gives what stood in the way, and the account as it is then: its columns are NULL when it was
-- doc: not changed. An address that stays as it is takes nothing, not even from an adopted account
-- doc: that differs from it by case, and keeps its key, so one without a key stays without.
-- plan: users: its primary key and its unique indexes, one look-up each
-- param id: text
-- param email: text
-- param email_key: text
-- param password_hash: text?
-- param system_role: text
-- param oauth_provider: text?
-- param oauth_id: text?
-- param needs_setup: bool
-- param token_version: int
-- column is_there: bool
-- column email_taken: bool
-- column oauth_taken: bool
-- column id: text?
-- column email: text?
-- column password_hash: text?
-- column system_role: text?
-- column created_at: timestamp?
-- column oauth_provider: text?
-- column oauth_id: text?
-- column needs_setup: bool?
-- column token_version: int?
-- step check -> is_there, email_taken, oauth_taken
SELECT
    EXISTS (SELECT 1 FROM users WHERE id = :id) AS is_there,
    NOT EXISTS (SELECT 1 FROM users WHERE id = :id AND email = :email)
    AND (
        EXISTS (SELECT 1 FROM users WHERE email = :email)
        OR EXISTS (SELECT 1 FROM users WHERE email_key = :email_key AND id <> :id)
        OR EXISTS (
            SELECT 1 FROM users
            WHERE email_key IS NULL AND LOWER(email) = :email_key AND id <> :id
        )
    ) AS email_taken,
    EXISTS (
        SELECT 1 FROM users
        WHERE oauth_provider = :oauth_provider AND oauth_id = :oauth_id AND id <> :id
    ) AS oauth_taken;

-- step change
-- MySQL assigns from left to right: email_key is decided while email is still the old one.
UPDATE users
SET
    email_key = CASE WHEN email = :email THEN email_key ELSE :email_key END,
    email = :email,
    password_hash = :password_hash,
    system_role = :system_role,
    oauth_provider = :oauth_provider,
    oauth_id = :oauth_id,
    needs_setup = :needs_setup,
    token_version = :token_version
WHERE id = :id AND :email_taken = 0 AND :oauth_taken = 0;

-- step read
SELECT
    found.is_there,
    found.email_taken,
    found.oauth_taken,
    changed.id,
    changed.email,
    changed.password_hash,
    changed.system_role,
    changed.created_at,
    changed.oauth_provider,
    changed.oauth_id,
    changed.needs_setup,
    changed.token_version
FROM (
    SELECT
        :is_there = 1 AS is_there,
        :email_taken = 1 AS email_taken,
        :oauth_taken = 1 AS oauth_taken
) AS found
LEFT JOIN users AS changed
    ON changed.id = :id AND found.email_taken = 0 AND found.oauth_taken = 0;

-- name: users.count_users :value
-- doc: How many accounts there are.
-- plan: users, an index scan: counted on demand only
-- column count: int
SELECT COUNT(*) AS count FROM users;

-- name: users.count_admin_users :value
-- doc: How many administrators there are.
-- plan: users.ix_users_role_created
-- column count: int
SELECT COUNT(*) AS count FROM users WHERE system_role = 'admin';
