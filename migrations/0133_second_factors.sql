-- Passkeys and one-time codes of dashboard accounts. A session is verified once a second factor was shown in it.
ALTER TABLE sessions ADD COLUMN verified_at INTEGER;
CREATE TABLE passkeys (
  -- The credential's id, in base64url.
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  counter INTEGER NOT NULL,
  transports TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX passkeys_by_user ON passkeys (user_id);
CREATE TABLE totp_secrets (
  user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
  -- The secret is derived from it and the master secret, so that a copy of the database makes no codes.
  salt TEXT NOT NULL,
  -- Null until the first code was entered.
  confirmed_at INTEGER,
  -- The last accepted time step: no code is accepted twice.
  last_step INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE recovery_codes (
  digest TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX recovery_codes_by_user ON recovery_codes (user_id);
CREATE TABLE passkey_challenges (
  digest TEXT NOT NULL PRIMARY KEY,
  purpose TEXT NOT NULL,
  -- Null for a sign-in whose account is not known yet.
  user_id TEXT,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
