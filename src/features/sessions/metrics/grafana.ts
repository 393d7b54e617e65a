type Panel = { title: string; unit: string; queries: [legend: string, expression: string][] };

const PANELS: Panel[] = [
  {
    title: "Rooms and participants",
    unit: "short",
    queries: [
      ["rooms", "stoa_rtc_rooms"],
      ["participants", "stoa_rtc_sessions"],
    ],
  },
  {
    title: "Join time",
    unit: "s",
    queries: [
      ["p50", "histogram_quantile(0.5, sum by (le) (rate(stoa_rtc_join_seconds_bucket[5m])))"],
      ["p95", "histogram_quantile(0.95, sum by (le) (rate(stoa_rtc_join_seconds_bucket[5m])))"],
    ],
  },
  {
    title: "Connections by outcome",
    unit: "ops",
    queries: [["{{outcome}}", "sum by (outcome) (rate(stoa_rtc_connections_total[5m]))"]],
  },
  { title: "Refused joins", unit: "ops", queries: [["{{code}}", "sum by (code) (rate(stoa_rtc_refused_total[5m]))"]] },
  {
    title: "Media traffic",
    unit: "bps",
    queries: [
      ["in", "stoa_media_in_bits_per_second"],
      ["out", "stoa_media_out_bits_per_second"],
    ],
  },
  {
    title: "Packets",
    unit: "pps",
    queries: [
      ["in", "rate(stoa_media_packets_in_total[1m])"],
      ["out", "rate(stoa_media_packets_out_total[1m])"],
      ["refused", "rate(stoa_media_refused_packets_total[1m])"],
    ],
  },
  {
    title: "Repairs",
    unit: "ops",
    queries: [
      ["packets asked again by viewers", "rate(stoa_media_nacks_in_total[1m])"],
      ["packets asked again of publishers", "rate(stoa_media_nacks_out_total[1m])"],
      ["keyframes asked by viewers", "rate(stoa_media_keyframe_requests_in_total[1m])"],
      ["keyframes asked of publishers", "rate(stoa_media_keyframe_requests_out_total[1m])"],
    ],
  },
  {
    title: "Between media workers",
    unit: "short",
    queries: [
      ["links", "stoa_relay_links"],
      ["streams", "stoa_relay_streams"],
    ],
  },
  { title: "CPU", unit: "percent", queries: [["of all cores", "stoa_media_cpu_percent"]] },
  {
    title: "Chat",
    unit: "ops",
    queries: [
      ["{{type}}", "sum by (type) (rate(stoa_chat_events_total[5m]))"],
      ["sockets", "stoa_chat_connections"],
    ],
  },
  {
    title: "Webhooks",
    unit: "short",
    queries: [
      ["waiting", "stoa_webhook_deliveries_pending"],
      ["{{outcome}} a second", "sum by (outcome) (rate(stoa_webhook_attempts_total[5m]))"],
    ],
  },
  {
    title: "HTTP by status",
    unit: "reqps",
    queries: [["{{status}}", "sum by (status) (rate(stoa_http_requests_total[5m]))"]],
  },
  {
    title: "HTTP time to answer, p95",
    unit: "s",
    queries: [["p95", "histogram_quantile(0.95, sum by (le) (rate(stoa_http_request_seconds_bucket[5m])))"]],
  },
  {
    title: "Process",
    unit: "bytes",
    queries: [["memory", "process_resident_memory_bytes"]],
  },
  {
    title: "Disk and database",
    unit: "bytes",
    queries: [
      ["free disk", "stoa_disk_free_bytes"],
      ["database", "stoa_database_bytes"],
      ["write-ahead log", "stoa_database_wal_bytes"],
      ["last backup", "stoa_last_backup_bytes"],
    ],
  },
  {
    title: "Descriptors",
    unit: "short",
    queries: [
      ["used", "stoa_descriptors_used"],
      ["allowed", "stoa_descriptors_allowed"],
      ["refused a second", "rate(stoa_connections_refused_total[1m])"],
    ],
  },
  {
    title: "Delay of the main thread",
    unit: "s",
    queries: [["delay", "stoa_event_loop_delay_seconds"]],
  },
  {
    title: "Ages",
    unit: "s",
    queries: [
      ["backup", "time() - stoa_last_backup_timestamp_seconds"],
      ["check of all pages", "time() - stoa_database_check_timestamp_seconds"],
      ["certificate expires in", "stoa_certificate_expires_seconds - time()"],
    ],
  },
  {
    title: "Errors of the database, and replication",
    unit: "short",
    queries: [
      ["{{code}} a second", "sum by (code) (rate(stoa_sqlite_errors_total[5m]))"],
      ["records behind", "stoa_cluster_lag_records"],
    ],
  },
];

const COLUMNS = 2;
const WIDTH = 24 / COLUMNS;
const HEIGHT = 8;

/** A dashboard for import into Grafana; on import, Grafana asks for the Prometheus data source. */
export function grafanaDashboard() {
  return {
    __inputs: [{ name: "DS_PROMETHEUS", label: "Prometheus", type: "datasource", pluginId: "prometheus" }],
    title: "Stoa",
    uid: "stoa",
    schemaVersion: 39,
    refresh: "10s",
    time: { from: "now-1h", to: "now" },
    tags: ["stoa"],
    panels: PANELS.map(({ title, unit, queries }, index) => ({
      id: index + 1,
      type: "timeseries",
      title,
      datasource: { type: "prometheus", uid: "$" + "{DS_PROMETHEUS}" },
      gridPos: { x: (index % COLUMNS) * WIDTH, y: Math.floor(index / COLUMNS) * HEIGHT, w: WIDTH, h: HEIGHT },
      fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
      targets: queries.map(([legendFormat, expr], at) => ({ refId: String.fromCharCode(65 + at), expr, legendFormat })),
    })),
  };
}

/** Names of the metrics that the panels query. */
export function metricsShown(): string[] {
  const names = PANELS.flatMap(({ queries }) =>
    queries.flatMap(([, expression]) => expression.match(/\b(?:stoa|process)_\w+/g) ?? []),
  );
  return [...new Set(names.map((name) => name.replace(/_bucket$/, "")))].sort();
}
