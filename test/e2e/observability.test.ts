// browser: shell
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Connection } from "../../web/sdk/server.ts";
import { joinRoom, waitForFrames } from "./sdk/page-api.ts";
import { openStage, type Stage } from "./sdk/stage.ts";

type ConnectionRecord = Connection & {
  events: { type: string; source: string; timestamp: string }[];
  errors: { category: string; code: string; likelyCause: string }[];
};

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

/**
 * Waits for a connection record that fulfils the condition. Records are written with a delay, and a client that joins
 * again starts another record.
 */
async function waitForRecord(
  roomId: string,
  identity: string,
  until: (record: ConnectionRecord) => boolean,
): Promise<ConnectionRecord> {
  for (;;) {
    const list = await stage.stoa.connections.list({ roomId });
    for (const { id, participantIdentity } of list) {
      if (participantIdentity !== identity) continue;
      const record = (await stage.stoa.connections.get(id)) as ConnectionRecord;
      if (until(record)) return record;
    }
    await Bun.sleep(200);
  }
}

/** The connection events that the server has recorded, in order. */
const serverEvents = ({ events }: ConnectionRecord) =>
  events
    .filter(({ source, type }) => source === "server" && /^(?:re)?connect|joined|left/.test(type))
    .map(({ type }) => type);

const isOutage = ({ type, source }: ConnectionRecord["events"][number]) =>
  source === "server" && type === "reconnecting";
const isReturn = ({ type, source }: ConnectionRecord["events"][number]) =>
  source === "server" && type === "reconnected";

test("[4.6] the timeline of a browser that reconnects has each event once and in order", async () => {
  const room = await stage.stoa.rooms.create({ name: "story" });
  const [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  const direct = await stage.stoa.rtcTokens.mint(room.id, {
    participantIdentity: "anna",
    permissions: { publish: true },
  });
  await joinRoom(anna, direct, ["camera"], 180);
  await joinRoom(ben, await stage.rtc(room.id, "ben"), ["camera"], 180);
  await waitForFrames(anna, "ben-camera");

  stage.network.reset();
  await ben.waitForFunction(() => window.states.includes("RECONNECTING"));
  await waitForRecord(room.id, "ben", ({ events }) => events.some(isOutage));
  stage.network.heal();
  await ben.waitForFunction(() => window.states.at(-1) === "CONNECTED");
  await waitForFrames(anna, "ben-camera");

  const record = await waitForRecord(room.id, "ben", ({ events }) => events.some(isReturn));
  expect(record.reconnectCount).toBe(1);
  expect(record.joinTimeMs).toBeGreaterThan(0);
  expect(record.errors).toEqual([]);
  expect(record.state).toBe("CONNECTED");
  expect(serverEvents(record)).toEqual([
    "connection_started",
    "participant_joined",
    "connected",
    "reconnecting",
    "reconnected",
  ]);
  const times = record.events.map(({ timestamp }) => timestamp);
  expect(times).toEqual(times.toSorted());
  const other = await waitForRecord(room.id, "anna", ({ state }) => state === "CONNECTED");
  expect(other.reconnectCount).toBe(0);
  await Promise.all([anna.close(), ben.close()]);
}, 180_000);

test("[4.6] refused joins are classified by their cause", async () => {
  const room = await stage.stoa.rooms.create({ name: "refused" });
  const mint = (participantIdentity: string, permissions = {}) =>
    stage.stoa.rtcTokens.mint(room.id, { participantIdentity, permissions });
  const join = async ({ endpoint, token }: { endpoint: string; token: string }, connectionId: string) => {
    const socket = new WebSocket(endpoint, [`token.${token}`]);
    socket.onopen = () => socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId }));
    await new Promise((closed) => {
      socket.onclose = closed;
    });
  };
  const revoked = await mint("dora");
  await stage.stoa.rtcTokens.revoke(room.id, revoked.tokenId);
  await join(revoked, "c-revoked");
  await join(await mint("emil", { join: false }), "c-forbidden");
  const late = await mint("fred");
  await stage.stoa.rooms.close(room.id);
  await join(late, "c-late");

  const categories = new Map<string | null, string>();
  while (categories.size < 3) {
    const response = await fetch(`${stage.server.url}/v1/errors`, {
      headers: { authorization: `Bearer ${stage.server.apiKey}` },
    });
    for (const error of (await response.json()) as { code: string; category: string }[]) {
      if (error.category !== "NETWORK_ERROR") categories.set(error.code, error.category);
    }
    await Bun.sleep(100);
  }
  expect(Object.fromEntries(categories)).toEqual({
    TOKEN_REVOKED: "TOKEN_ERROR",
    PERMISSION_DENIED: "AUTHORIZATION_ERROR",
    ROOM_CLOSED: "SIGNALING_ERROR",
  });
}, 180_000);

// This runs concurrently with the next test, because both wait for the server's timeout.
test.concurrent("[4.6] a browser that dies is FAILED with exactly one network error", async () => {
  const room = await stage.stoa.rooms.create({ name: "death" });
  const [page, network] = await Promise.all([stage.page(), stage.openNetwork()]);
  await joinRoom(page, await stage.rtc(room.id, "carl", undefined, { network }), ["camera"], 180);
  await waitForRecord(room.id, "carl", ({ state }) => state === "CONNECTED");
  // The connection ends abruptly, as in a power failure: of a page alone, the browser would still close the socket.
  const devtools = await page.context().newCDPSession(page);
  network.reset();
  void devtools.send("Page.crash").catch(() => {});
  const record = await waitForRecord(room.id, "carl", ({ disconnectedAt }) => disconnectedAt !== null);
  expect(record).toMatchObject({ state: "FAILED", disconnectReason: "timeout" });
  expect(record.errors).toMatchObject([{ category: "NETWORK_ERROR", likelyCause: expect.any(String) }]);
  expect(record.durationMs).toBeGreaterThan(0);
}, 180_000);

/** Joins through a middlebox that alters the SDP between browser and server. */
async function joinThroughMiddlebox(
  kind: "candidates" | "fingerprint",
  roomId: string,
  identity: string,
): Promise<void> {
  const page = await stage.page();
  await page.evaluate((kind) => {
    if (kind === "fingerprint") {
      // The SDP is altered before the SDK reads it, because it may be compressed when sent.
      const own = Object.getOwnPropertyDescriptor(RTCPeerConnection.prototype, "localDescription");
      Object.defineProperty(RTCPeerConnection.prototype, "localDescription", {
        get(this: RTCPeerConnection) {
          const { type, sdp } = own?.get?.call(this) ?? {};
          return { type, sdp: sdp?.replace(/(a=fingerprint:sha-256 )(?:[0-9A-F]{2}:){2}/g, "$1" + "00:00:") };
        },
      });
    } else {
      type Set = (this: RTCPeerConnection, description: RTCSessionDescriptionInit) => Promise<void>;
      const set = RTCPeerConnection.prototype.setRemoteDescription as Set;
      const meddle: Set = function (description) {
        // Nothing listens on port 9 of this machine.
        const sdp = description.sdp?.replace(
          /^(a=candidate:\S+ \d+ \S+ \d+ )\S+ \d+ /gm,
          (_, head) => `${head}127.0.0.1 9 `,
        );
        return set.call(this, { type: "answer", sdp });
      };
      RTCPeerConnection.prototype.setRemoteDescription =
        meddle as typeof RTCPeerConnection.prototype.setRemoteDescription;
    }
  }, kind);
  await joinRoom(page, await stage.rtc(roomId, identity));
}

test.concurrent("[4.6] media that cannot connect is an ICE error that names its cause", async () => {
  const room = await stage.stoa.rooms.create({ name: "blocked" });
  await Promise.all([
    joinThroughMiddlebox("candidates", room.id, "gina"),
    joinThroughMiddlebox("fingerprint", room.id, "hugo"),
  ]);
  const [blocked, altered] = await Promise.all([
    waitForRecord(room.id, "gina", ({ errors }) => errors.length > 0),
    waitForRecord(room.id, "hugo", ({ errors }) => errors.length > 0),
  ]);
  expect(blocked.errors).toMatchObject([{ category: "ICE_ERROR", code: "ice_timeout" }]);
  expect(blocked.joinTimeMs).toBeNull();
  expect(altered.errors).toMatchObject([{ category: "ICE_ERROR", code: "dtls_failed" }]);
}, 180_000);
