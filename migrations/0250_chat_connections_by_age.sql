-- Old connections are removed every ten minutes, and those of a run that was killed are ended at the next start: neither may read all
-- connections of a month.
CREATE INDEX chat_connections_by_age ON chat_connections (connected_at);
CREATE INDEX chat_connections_open ON chat_connections (id) WHERE disconnected_at IS NULL;
