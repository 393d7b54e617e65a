-- Where the bytes of a recorded file lie: on this server's disk, in the bucket, or still on the media node that wrote it.
ALTER TABLE recording_files ADD COLUMN location TEXT NOT NULL DEFAULT 'disk';
ALTER TABLE recording_files ADD COLUMN server_name TEXT;
CREATE INDEX recording_files_by_location ON recording_files (location, recording_id, id);

-- What is on its way to the bucket, written down before its first byte: whatever a crash leaves there is found again.
CREATE TABLE recording_uploads (
  object_key TEXT PRIMARY KEY,
  file_id TEXT NOT NULL,
  -- Of an upload in parts; null for one that goes at once, or has not begun.
  upload_id TEXT,
  -- What the bucket answered to each part so far, in order.
  etags TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Files that a media node still has and nobody wants: they were fetched, deleted or erased.
CREATE TABLE recording_leftovers (
  server_name TEXT NOT NULL,
  recording_id TEXT NOT NULL,
  file_name TEXT NOT NULL,
  PRIMARY KEY (server_name, recording_id, file_name)
) STRICT, WITHOUT ROWID;
