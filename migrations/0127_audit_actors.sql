-- An entry names the API key that acted, and one about the installation belongs to no project.
CREATE TABLE audit_entries_with_actors (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT REFERENCES projects (id),
  environment TEXT,
  actor_type TEXT NOT NULL,
  actor_id TEXT,
  actor_email TEXT,
  actor_name TEXT,
  action TEXT NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  metadata TEXT NOT NULL,
  request_id TEXT,
  ip_address TEXT,
  user_agent TEXT,
  created_at INTEGER NOT NULL
) STRICT;
INSERT INTO audit_entries_with_actors
  SELECT id, public_id, project_id, environment,
    CASE WHEN actor_id IS NOT NULL THEN 'user' WHEN request_id IS NOT NULL THEN 'api_key' ELSE 'command_line' END,
    actor_id, actor_email, NULL, action, resource_type, resource_id, metadata, request_id, ip_address, user_agent, created_at
  FROM audit_entries;
DROP TABLE audit_entries;
ALTER TABLE audit_entries_with_actors RENAME TO audit_entries;
CREATE INDEX audit_entries_by_project ON audit_entries (project_id, id);
CREATE TRIGGER audit_entries_are_not_changed BEFORE UPDATE ON audit_entries
BEGIN
  SELECT RAISE(ABORT, 'audit entries are permanent');
END;
CREATE TRIGGER audit_entries_are_not_deleted BEFORE DELETE ON audit_entries
BEGIN
  SELECT RAISE(ABORT, 'audit entries are permanent');
END;
