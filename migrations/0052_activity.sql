-- What happened in each minute, for the plots of the dashboard. Counted in memory and added now and then.
CREATE TABLE activity_minutes (
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  -- The minute's first millisecond.
  at INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  failed_deliveries INTEGER NOT NULL,
  PRIMARY KEY (project_id, environment, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX activity_minutes_by_age ON activity_minutes (at);
