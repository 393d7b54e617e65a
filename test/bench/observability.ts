/** observability: listing connections and reading metrics at 10,000 and at 1,000,000 records */
import type { Database } from "bun:sqlite";
import { type TestServer, testServer } from "../harness/server.ts";
import { median, report } from "./harness/report.ts";

const SIZES = { small: 10_000, large: Number(process.argv[2] ?? 1_000_000) };
const CALLS = 300;
/** Both sizes have this many records within the metrics' range, and differ in the older records. */
const IN_RANGE = 5_000;

const QUERIES = {
  "GET /v1/connections": "/v1/connections?limit=100",
  "… by state": "/v1/connections?state=FAILED&limit=100",
  "… by room": "/v1/connections?roomId=room-7&limit=100",
  "GET /v1/metrics?range=1h": "/v1/metrics?range=1h",
  "GET /v1/errors": "/v1/errors?limit=100",
};

const stages = { small: await stage(SIZES.small), large: await stage(SIZES.large) };
type Size = keyof typeof stages;

// In turns, and by CPU time: whatever else the machine does falls on both alike.
const measured: Record<Size, Record<string, number>> = { small: {}, large: {} };
for (const [name, path] of Object.entries(QUERIES)) {
  const times: Record<Size, number[]> = { small: [], large: [] };
  for (let n = 0; n < CALLS; n++) {
    for (const size of ["small", "large"] as const) times[size].push(await cpuOf(stages[size], path));
  }
  for (const size of ["small", "large"] as const) measured[size][name] = median(times[size]);
}
for (const { server } of Object.values(stages)) await server.close();

const rows = Object.keys(QUERIES).flatMap((name) => {
  const [small = 0, large = 0] = [measured.small[name], measured.large[name]];
  return [
    { what: `${name}, ${SIZES.small} records`, value: small, unit: "ms of CPU" },
    { what: `${name}, ${SIZES.large} records`, value: large, unit: "ms of CPU" },
    { what: `${name}, ratio`, value: large / small, unit: "", goal: { atMost: 1.5 } },
  ];
});
report("observability", rows, { sizes: SIZES, calls: CALLS });

type Stage = { server: TestServer; key: string };

async function stage(size: number): Promise<Stage> {
  const server = testServer({ LOG_LEVEL: "silent" });
  const { projectId, key } = await server.project();
  fill(server.runtime.db.$client, projectId, size, server.clock.now());
  return { server, key };
}

async function cpuOf({ server, key }: Stage, path: string): Promise<number> {
  const before = process.cpuUsage();
  const { status } = await server.call("GET", path, { key });
  const { user, system } = process.cpuUsage(before);
  if (status !== 200) throw new Error(`${path} answered ${status}`);
  return (user + system) / 1000;
}

function fill(client: Database, projectId: string, size: number, now: number): void {
  const connection = client.prepare(
    `INSERT INTO rtc_connections (id, project_id, environment, connection_id, room_id, room_name, participant_identity,
       state, join_time_ms, started_at, connected_at, last_seen_at, disconnected_at)
     VALUES (?, ?, 'DEVELOPMENT', ?, ?, 'lobby', 'anna', ?, ?, ?, ?, ?, ?)`,
  );
  const error = client.prepare(
    `INSERT INTO rtc_errors VALUES (?, ?, 'DEVELOPMENT', 'NETWORK_ERROR', 'timeout', 'gone', NULL, ?, ?)`,
  );
  client.run(
    `INSERT INTO rooms (id, project_id, environment, name, created_at, updated_at)
     VALUES ('room-7', ?1, 'DEVELOPMENT', 'lobby', ?2, ?2)`,
    [projectId, now],
  );
  client.transaction(() => {
    for (let n = 0; n < size; n++) {
      // The last ones within the hour, all others in the 29 days before.
      const young = n >= size - IN_RANGE;
      const age = young ? (size - n) * 600 : 3_600_000 + ((size - n) / size) * 29 * 86_400_000;
      const at = Math.floor(now - age);
      const id = `c-${String(n).padStart(9, "0")}`;
      const state = n % 50 === 0 ? "FAILED" : "DISCONNECTED";
      connection.run(id, projectId, id, `room-${n % 100}`, state, 100 + (n % 400), at, at + 200, at + 9000, at + 9000);
      if (n % 50 === 0) error.run(`e-${id}`, projectId, `room-${n % 100}`, at);
    }
  })();
}
