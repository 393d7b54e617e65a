CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  uploader_id TEXT,
  filename TEXT NOT NULL,
  mime_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  metadata TEXT,
  status TEXT NOT NULL DEFAULT 'PENDING',
  sha256 TEXT,
  location TEXT NOT NULL,
  object_key TEXT UNIQUE,
  -- Messages that show it. The last one to go takes the file along.
  message_count INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX attachments_unsent ON attachments (status, created_at) WHERE message_count = 0;
CREATE INDEX attachments_by_conversation ON attachments (conversation_id);

-- Bytes that nothing names any more, queued in the transaction that forgot them and removed after it.
CREATE TABLE storage_removals (
  object_key TEXT PRIMARY KEY,
  location TEXT NOT NULL,
  queued_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX storage_removals_by_time ON storage_removals (queued_at);

-- Holds the index alone, no copy of the text. Words arrive folded and separated by spaces; letters beyond ASCII are
-- letters to this tokenizer, too.
CREATE VIRTUAL TABLE message_search USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');

-- Messages that are new or changed since the index looked at them.
CREATE TABLE search_pending (message_id INTEGER PRIMARY KEY) STRICT;

CREATE INDEX conversations_with_retention ON conversations (id) WHERE retention_days IS NOT NULL;
