-- A database with this column follows a commit log whose records are authenticated, and accepts no others any more. The
-- first leader of a version that authenticates them adds it.
ALTER TABLE log_position ADD COLUMN sealed INTEGER NOT NULL DEFAULT 1;
