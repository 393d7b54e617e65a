-- From a connection, or an error of it, to the call that it was part of.
CREATE INDEX call_participants_by_connection ON call_participants (connection_id);
-- What a call used: the sessions of its room that began while it was on.
CREATE INDEX usage_sessions_of_room ON usage_sessions (room_id, started_at);
