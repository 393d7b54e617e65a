/** Writes weeks of history directly into the tables, because no service accepts a past time. */
import type { FlightDump } from "../../../src/protocol/media/flight.ts";
import type { Stage } from "./stage.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

const IDENTITIES = ["ada", "grace", "katherine", "edsger", "barbara", "donald", "radia", "leslie"];
const BROWSERS = [
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
  "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
];
const ROOMS = ["standup", "design-review", "support-desk"];

/** A seeded random generator. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

export async function writeHistory({ server }: Stage): Promise<{ connectionId: string }> {
  const { runtime, projectId } = server;
  const { $client: client } = runtime.db;
  const now = runtime.now();
  const random = seededRandom(7);
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T;
  const connection = client.query(
    `INSERT INTO rtc_connections (id, project_id, environment, connection_id, room_name, participant_identity, state,
       server_name, sdk, user_agent, ip_address, reconnect_count, rtt_ms, jitter_ms, packet_loss_percent, join_time_ms,
       started_at, connected_at, last_seen_at, disconnected_at, disconnect_reason)
     VALUES (?, ?, 'DEVELOPMENT', ?, ?, ?, ?, 'local', 'stoa-js/0.1.0', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const problem = client.query(`INSERT INTO rtc_errors VALUES (?, ?, 'DEVELOPMENT', ?, ?, ?, ?, NULL, ?)`);
  const happened = client.query(
    "INSERT INTO rtc_connection_events (connection, type, source, at, data) VALUES (?, ?, ?, ?, ?)",
  );
  const day = client.query(
    "INSERT INTO usage_days (project_id, environment, date, minutes, sessions) VALUES (?, 'DEVELOPMENT', ?, ?, ?)",
  );
  const minute = client.query("INSERT INTO activity_minutes VALUES (?, 'DEVELOPMENT', ?, ?, ?, ?)");

  function connected(startedAt: number, lastsMs: number, failed = false, reconnects = 0): string {
    const id = runtime.ids.uuid();
    const joinMs = Math.round(180 + random() * 400);
    const ended = Math.round(Math.min(startedAt + lastsMs, now - 1_000));
    connection.run(
      id,
      projectId,
      crypto.randomUUID(),
      pick(ROOMS),
      pick(IDENTITIES),
      failed ? "FAILED" : "DISCONNECTED",
      pick(BROWSERS),
      `198.51.100.${Math.floor(random() * 250) + 1}`,
      reconnects,
      failed ? null : Math.round(20 + random() * 120),
      failed ? null : Math.round(2 + random() * 12),
      failed ? null : Math.round(random() * 30) / 10,
      failed ? null : joinMs,
      startedAt,
      failed ? null : startedAt + joinMs,
      ended,
      ended,
      failed ? "connection_failed" : "left",
    );
    return id;
  }

  return runtime.write(() => {
    for (let back = 0; back < 60; back++) {
      const date = new Date(now - (back + 1) * DAY_MS);
      const busy = date.getUTCDay() % 6 === 0 ? 60 : 260;
      day.run(projectId, date.toISOString().slice(0, 10), Math.round(busy + random() * 180), 20);
    }
    for (let back = 3; back < 24 * 60; back++) {
      const at = Math.floor(now / MINUTE_MS) * MINUTE_MS - back * MINUTE_MS;
      const wave = 1 + Math.sin(back / 40);
      minute.run(
        projectId,
        at,
        Math.round(wave * 12 * random()),
        Math.round(wave * 5 * random()),
        random() < 0.06 ? 2 : 0,
      );
      if (random() < 0.12 * wave) connected(now - back * MINUTE_MS, (2 + random() * 25) * MINUTE_MS);
    }
    const failures = [
      ["ICE_ERROR", "ICE_FAILED", "No network path to the media server was found.", 30],
      ["ICE_ERROR", "ICE_FAILED", "No network path to the media server was found.", 95],
      ["ICE_ERROR", "ICE_FAILED", "No network path to the media server was found.", 400],
      ["TOKEN_ERROR", "TOKEN_EXPIRED", "The token has expired.", 12],
      ["TOKEN_ERROR", "TOKEN_EXPIRED", "The token has expired.", 700],
      ["CLIENT_ERROR", "MEDIA_DEVICE_DENIED", "The camera was refused.", 220],
      ["NETWORK_ERROR", "CONNECTION_LOST", "The connection was lost and did not come back.", 48],
    ] as const;
    for (const [category, code, message, minutesAgo] of failures) {
      const at = now - minutesAgo * MINUTE_MS;
      problem.run(runtime.ids.uuid(), projectId, category, code, message, connected(at, 4_000, true), at + 4_000);
    }
    const from = now - 34 * MINUTE_MS;
    const connectionId = connected(from, 21 * MINUTE_MS, false, 1);
    const story: [afterMs: number, type: string, source: "client" | "server", data: object | null][] = [
      [0, "connection_started", "server", { sdk: "stoa-js/0.1.0" }],
      [40, "participant_joined", "server", { mode: "new" }],
      [180, "ice_state_changed", "client", { state: "connecting" }],
      [260, "ice_state_changed", "server", { state: "connected" }],
      [300, "connected", "server", { transport: "udp", joinTimeMs: 300 }],
      [1_200, "track_published", "server", { kind: "video", source: "camera", codec: "VP8" }],
      [1_700, "track_published", "server", { kind: "audio", source: "microphone", codec: "opus" }],
      [4_000, "participant_connection_quality_changed", "server", { quality: "excellent" }],
      [6 * MINUTE_MS, "participant_connection_quality_changed", "server", { quality: "poor" }],
      [8 * MINUTE_MS, "reconnecting", "server", { reason: "socket closed", code: 1006 }],
      [8 * MINUTE_MS + 400, "ice_state_changed", "client", { state: "disconnected" }],
      [9 * MINUTE_MS, "reconnected", "server", { afterMs: MINUTE_MS }],
      [9 * MINUTE_MS + 900, "participant_connection_quality_changed", "server", { quality: "good" }],
      [14 * MINUTE_MS, "track_published", "server", { kind: "video", source: "screenShare", codec: "VP8" }],
      [17 * MINUTE_MS, "track_unpublished", "server", { kind: "video", source: "screenShare" }],
      [18 * MINUTE_MS, "error", "client", { code: "MEDIA_DEVICE_LOST", message: "The camera was unplugged." }],
      [21 * MINUTE_MS, "disconnected", "server", { reason: "left" }],
    ];
    for (const [afterMs, type, source, data] of story) {
      happened.run(connectionId, type, source, from + afterMs, data && JSON.stringify(data));
    }
    problem.run(
      runtime.ids.uuid(),
      projectId,
      "CLIENT_ERROR",
      "MEDIA_DEVICE_LOST",
      "The camera was unplugged.",
      connectionId,
      from + 18 * MINUTE_MS,
    );
    client.run("INSERT INTO rtc_flights VALUES (?, ?, 'MEDIA_DEVICE_LOST', ?, ?)", [
      ...[runtime.ids.uuid(), connectionId, from + 18 * MINUTE_MS],
      Bun.gzipSync(Buffer.from(JSON.stringify(flight(from + 17 * MINUTE_MS, random)))),
    ]);
    return { connectionId };
  });
}

/** A flight record in which the bandwidth to the client drops. */
function flight(sinceMs: number, random: () => number): FlightDump {
  const states = Array.from({ length: 120 }, (_, n) => {
    const narrow = n > 50 && n < 90;
    const lossPercent = narrow ? 4 + random() * 6 : random();
    const [estimate, queueMs] = narrow
      ? [300_000 + random() * 40_000, 80 + random() * 120]
      : [1_800_000, 4 + random() * 6];
    return [n * 500, Math.round(estimate), queueMs, 40 + queueMs, 0.4, lossPercent, 3 + random() * 5];
  });
  return { version: 1, sinceMs, lastedMs: 60_000, streams: [], received: [], sent: [], rtcp: [], states };
}
