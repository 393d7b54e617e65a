-- A filter that few entries match must not read the whole log of the project.
CREATE INDEX audit_entries_by_action ON audit_entries (project_id, action, id);
CREATE INDEX audit_entries_by_actor ON audit_entries (project_id, actor_id, id);
CREATE INDEX audit_entries_by_resource ON audit_entries (project_id, resource_id, id);
