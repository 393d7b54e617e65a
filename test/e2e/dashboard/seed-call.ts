/** Writes a finished call into the tables: four participants, a screen, connection problems and chat messages. */
import type { Access } from "../../../src/features/chat/access.ts";
import type { Stage } from "./stage.ts";

const MINUTE_MS = 60_000;
const DURATION_MS = 25 * MINUTE_MS;

type Event = [afterMs: number, type: string, data: object];
type SeededParticipant = {
  identity: string;
  from: number;
  until: number;
  reason: string;
  verdict: object;
  events: Event[];
};

const quality = (afterMs: number, is: string): Event => [
  afterMs,
  "participant_connection_quality_changed",
  { quality: is },
];
const shared = (afterMs: number, source: string): Event => [
  afterMs,
  "track_published",
  { kind: source === "microphone" ? "audio" : "video", source, trackId: source },
];
const fine = {
  quality: "excellent",
  cause: "none",
  evidence: {},
  sentence: "No problems were measured during the call.",
};

const PARTICIPANTS: SeededParticipant[] = [
  {
    identity: "ada",
    from: 0,
    until: DURATION_MS,
    reason: "left",
    verdict: fine,
    events: [
      shared(900, "camera"),
      shared(1_100, "microphone"),
      quality(4_000, "excellent"),
      shared(9 * MINUTE_MS, "screenShare"),
      [16 * MINUTE_MS, "track_unpublished", { trackId: "screenShare" }],
    ],
  },
  {
    identity: "grace",
    from: 40_000,
    until: DURATION_MS - 30_000,
    reason: "left",
    verdict: {
      quality: "poor",
      cause: "uplink_loss",
      evidence: { uplinkLossPercent: 11.4 },
      sentence: "11 % of the packets from the participant were lost.",
    },
    events: [
      shared(42_000, "microphone"),
      quality(45_000, "excellent"),
      quality(6 * MINUTE_MS, "poor"),
      [10 * MINUTE_MS, "reconnecting", { path: "media", reason: "timeout" }],
      quality(10 * MINUTE_MS + 500, "lost"),
      [11 * MINUTE_MS, "reconnected", { path: "media" }],
      quality(11 * MINUTE_MS + 800, "poor"),
      quality(19 * MINUTE_MS, "good"),
    ],
  },
  {
    identity: "katherine",
    from: 3 * MINUTE_MS,
    until: 14 * MINUTE_MS,
    reason: "timeout",
    verdict: {
      quality: "good",
      cause: "device",
      evidence: { deviceErrors: ["MEDIA_DEVICE_LOST"] },
      sentence: "The participant's camera or microphone failed, or the browser was not allowed to use it.",
    },
    events: [shared(3 * MINUTE_MS + 800, "camera"), quality(3 * MINUTE_MS + 4_000, "good")],
  },
  {
    identity: "a-guest-with-quite-a-long-identity.from@example.com",
    from: 8 * MINUTE_MS,
    until: DURATION_MS,
    reason: "left",
    verdict: fine,
    events: [quality(8 * MINUTE_MS + 3_000, "excellent")],
  },
];

export async function writeCall({ server }: Stage): Promise<{ callId: string }> {
  const { runtime, services, projectId } = server;
  const { $client: client } = runtime.db;
  const roomId = await server.room("morning-review");
  const start = runtime.now() - DURATION_MS - 90_000;
  const callId = runtime.ids.publicId("call");
  const id = runtime.ids.uuid();
  const tenant = { projectId, environment: "DEVELOPMENT" as const };
  await runtime.write((unit) => {
    client.run(
      "INSERT INTO calls VALUES (?, ?, ?, 'DEVELOPMENT', ?, 'morning-review', ?, ?, ?, 4, 4, 'poor', 'uplink_loss')",
      [...[id, callId, projectId, roomId], ...[start, start + DURATION_MS, start + DURATION_MS]],
    );
    client.run(
      `INSERT INTO recordings (id, public_id, project_id, environment, room_id, room_name, call_id, name, audio_only,
         automatic, status, started_at, last_seen_at, ended_at)
       VALUES (?, ?, ?, 'DEVELOPMENT', ?, 'morning-review', ?, 'Morning review', 0, 1, 'READY', ?, ?, ?)`,
      [
        ...[runtime.ids.uuid(), runtime.ids.publicId("recording"), projectId, roomId, callId],
        ...[start, start + DURATION_MS, start + DURATION_MS],
      ],
    );
    for (const { identity, from, until, reason, verdict, events } of PARTICIPANTS) {
      const connection = runtime.ids.uuid();
      client.run(
        `INSERT INTO rtc_connections (id, project_id, environment, connection_id, room_id, room_name,
           participant_identity, state, server_name, started_at, connected_at, last_seen_at, disconnected_at)
         VALUES (?1, ?2, 'DEVELOPMENT', ?1, ?3, 'morning-review', ?4, 'DISCONNECTED', 'local', ?5, ?5, ?6, ?6)`,
        [connection, projectId, roomId, identity, start + from, start + until],
      );
      client.run("INSERT INTO usage_sessions VALUES (?1, ?2, 'DEVELOPMENT', ?3, 'morning-review', ?4, ?5, ?6, ?6)", [
        ...[connection, projectId, roomId, identity, start + from, start + until],
      ]);
      client.run(
        `INSERT INTO call_participants (call_id, session_id, identity, connection_id, joined_at, left_at, leave_reason,
           quality, verdict)
         VALUES (?1, ?2, ?3, ?2, ?4, ?5, ?6, 'good', ?7)`,
        [id, connection, identity, start + from, start + until, reason, JSON.stringify(verdict)],
      );
      for (const [afterMs, type, data] of events) {
        client.run(
          "INSERT INTO rtc_connection_events (connection, type, source, at, data) VALUES (?, ?, 'server', ?, ?)",
          [...[connection, type, start + afterMs, JSON.stringify(data)]],
        );
      }
      if (identity === "katherine") {
        client.run(
          "INSERT INTO rtc_errors VALUES (?, ?, 'DEVELOPMENT', 'CLIENT_ERROR', 'MEDIA_DEVICE_LOST', 'The camera was unplugged.', ?, ?, ?)",
          [runtime.ids.uuid(), projectId, connection, roomId, start + 7 * MINUTE_MS],
        );
      }
    }
    const conversation = services.chat.conversations.create(unit, tenant, {
      name: "morning-review",
      roomId,
      members: [{ userId: "ada" }, { userId: "grace" }, { userId: "edsger" }],
    });
    const access: Access = { kind: "server", conversation, userId: null, member: null };
    for (const [minute, senderId] of [
      [5, "grace"],
      [12, "edsger"],
      [12.1, "ada"],
      [20, "ada"],
    ] as const) {
      const { message } = services.chat.messages.send(unit, access, { text: "never to be seen", senderId });
      client.run("UPDATE messages SET created_at = ? WHERE public_id = ?", [start + minute * MINUTE_MS, message.id]);
    }
  });
  return { callId };
}
