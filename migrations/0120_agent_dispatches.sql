-- Which agents a room is to have, so that a restart forgets none; gone with the last who is in the room.
CREATE TABLE agent_dispatches (
  id TEXT NOT NULL PRIMARY KEY,
  room_id TEXT NOT NULL REFERENCES rooms (id),
  agent_name TEXT NOT NULL,
  metadata TEXT NOT NULL,
  attributes TEXT NOT NULL,
  -- 1: agents without a name do not come beside it.
  alone INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- The agent that works for the whole room, once there is one.
  job_id TEXT,
  agent_identity TEXT,
  job_ended INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_dispatches_by_room ON agent_dispatches (room_id);
