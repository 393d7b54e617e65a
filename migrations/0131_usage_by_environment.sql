-- Minutes are counted by environment. A day of before counts for the environment that most of its sessions were in.
CREATE TABLE usage_days_by_environment (
  project_id TEXT NOT NULL REFERENCES projects (id),
  date TEXT NOT NULL,
  environment TEXT NOT NULL,
  minutes INTEGER NOT NULL,
  sessions INTEGER NOT NULL,
  recorded_minutes INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project_id, date, environment)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_days_by_environment
  SELECT project_id, date, coalesce((
      SELECT environment FROM usage_sessions s WHERE s.project_id = d.project_id
        AND s.started_at >= unixepoch(d.date) * 1000 AND s.started_at < (unixepoch(d.date) + 86400) * 1000
      GROUP BY environment ORDER BY count(*) DESC LIMIT 1
    ), 'PRODUCTION'), minutes, sessions, recorded_minutes
  FROM usage_days d;
DROP TABLE usage_days;
ALTER TABLE usage_days_by_environment RENAME TO usage_days;
