-- How far this file has come in the commit log that several servers share; without such a log the table stays empty. The
-- row changes within the very commit that it counts, so that a copy of the file always tells what it holds.
CREATE TABLE log_position (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  log_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  term INTEGER NOT NULL
) STRICT;
