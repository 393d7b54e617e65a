/** The alerts that an operator needs, as rules for Prometheus. The guide “alerts” has the response to each. */
type Alert = {
  name: string;
  expression: string;
  /** How long the condition must hold, in Prometheus's notation. */
  holds: string;
  severity: "critical" | "warning";
  summary: string;
};

export const ALERTS: readonly Alert[] = [
  {
    name: "StoaDown",
    expression: 'up{job="stoa"} == 0',
    holds: "1m",
    severity: "critical",
    summary: "The server does not answer.",
  },
  {
    name: "StoaDatabaseDamaged",
    expression: "stoa_database_damaged == 1",
    holds: "0m",
    severity: "critical",
    summary: "The database is damaged or cannot be read.",
  },
  {
    name: "StoaDiskSpaceLow",
    expression: "stoa_disk_free_bytes < 536870912 or stoa_disk_free_bytes < 2 * stoa_database_bytes",
    holds: "5m",
    severity: "warning",
    summary: "The disk of DATA_DIR has less than 512 MB free, or less than twice the size of the database.",
  },
  {
    name: "StoaBackupFailed",
    expression: "stoa_last_backup_success == 0",
    holds: "0m",
    severity: "warning",
    summary: "The last backup failed.",
  },
  {
    name: "StoaBackupOld",
    expression: "time() - stoa_last_backup_timestamp_seconds > stoa_backup_interval_seconds + 7200",
    holds: "5m",
    severity: "critical",
    summary: "The newest backup is two hours older than it should be.",
  },
  {
    name: "StoaDescriptorsExhausted",
    // Silent connections are closed again and again, so that the descriptors in use vary from scrape to scrape.
    expression:
      "increase(stoa_connections_refused_total[5m]) > 0 or stoa_descriptors_used > 0.7 * stoa_descriptors_allowed",
    holds: "1m",
    severity: "warning",
    summary:
      "New connections were refused in the last five minutes, or soon will be: most file descriptors are in use.",
  },
  {
    name: "StoaCertificateExpires",
    expression: "stoa_certificate_expires_seconds - time() < 1209600",
    holds: "1h",
    severity: "critical",
    summary: "The certificate expires within 14 days, so its renewal has failed.",
  },
  {
    name: "StoaReplicationLag",
    expression: "stoa_cluster_lag_records > 1000",
    holds: "2m",
    severity: "warning",
    summary: "A standby is more than 1,000 records behind the commit log.",
  },
  {
    name: "StoaEventLoopDelayed",
    expression: "stoa_event_loop_delay_seconds > 0.5",
    holds: "2m",
    severity: "warning",
    summary: "The main thread was blocked for more than half a second between two scrapes.",
  },
  {
    name: "StoaMediaNodeLost",
    expression: "stoa_rtc_servers_unhealthy > 0",
    holds: "2m",
    severity: "warning",
    summary: "A media node does not report to the server.",
  },
];

/** A file for `rule_files` of Prometheus. */
export function prometheusRules(): string {
  const rules = ALERTS.map(
    ({ name, expression, holds, severity, summary }) => `      - alert: ${name}
        expr: ${JSON.stringify(expression)}
        for: ${holds}
        labels:
          severity: ${severity}
        annotations:
          summary: ${JSON.stringify(summary)}
`,
  );
  return `groups:\n  - name: stoa\n    rules:\n${rules.join("")}`;
}
