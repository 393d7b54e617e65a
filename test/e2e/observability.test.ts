import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Connection } from "../../web/sdk/server.ts";
import { joinRoom, moreFrames } from "./sdk/page-api.ts";
import { openStage, type Stage } from "./sdk/stage.ts";

type Told = Connection & {
  events: { type: string; source: string; timestamp: string }[];
  errors: { category: string; code: string; likelyCause: string }[];
};

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

/**
 * The record of a participant that is as expected, once there is one: records are written a moment after what they tell, and
 * a client that gives up and joins anew begins another.
 */
async function told(roomId: string, identity: string, until: (record: Told) => boolean): Promise<Told> {
  for (;;) {
    const list = await stage.stoa.connections.list({ roomId });
    for (const { id, participantIdentity } of list) {
      if (participantIdentity !== identity) continue;
      const record = (await stage.stoa.connections.get(id)) as Told;
      if (until(record)) return record;
    }
    await Bun.sleep(200);
  }
}

/** What the server itself noticed, in order. */
const story = ({ events }: Told) =>
  events
    .filter(({ source, type }) => source === "server" && /^(?:re)?connect|joined|left/.test(type))
    .map(({ type }) => type);

const isOutage = ({ type, source }: Told["events"][number]) => source === "server" && type === "reconnecting";
const isReturn = ({ type, source }: Told["events"][number]) => source === "server" && type === "reconnected";

test("[4.6] a browser whose socket breaks and returns: the timeline tells it in order, once", async () => {
  const room = await stage.stoa.rooms.create({ name: "story" });
  const [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  const direct = await stage.stoa.rtcTokens.mint(room.id, {
    participantIdentity: "anna",
    permissions: { publish: true },
  });
  await joinRoom(anna, direct, ["camera"], 180);
  await joinRoom(ben, await stage.rtc(room.id, "ben"), ["camera"], 180);
  await moreFrames(anna, "ben-camera");

  stage.network.reset();
  await ben.waitForFunction(() => window.states.includes("RECONNECTING"));
  await told(room.id, "ben", ({ events }) => events.some(isOutage));
  stage.network.heal();
  await ben.waitForFunction(() => window.states.at(-1) === "CONNECTED");
  await moreFrames(anna, "ben-camera");

  const record = await told(room.id, "ben", ({ events }) => events.some(isReturn));
  expect(record.reconnectCount).toBe(1);
  expect(record.joinTimeMs).toBeGreaterThan(0);
  expect(record.errors).toEqual([]);
  expect(record.state).toBe("CONNECTED");
  expect(story(record)).toEqual([
    "connection_started",
    "participant_joined",
    "connected",
    "reconnecting",
    "reconnected",
  ]);
  const times = record.events.map(({ timestamp }) => timestamp);
  expect(times).toEqual(times.toSorted());
  const other = await told(room.id, "anna", ({ state }) => state === "CONNECTED");
  expect(other.reconnectCount).toBe(0);
  await Promise.all([anna.close(), ben.close()]);
}, 180_000);

test("[4.6] joins that are refused are classified by their cause", async () => {
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

// At once with the next one: both wait until the server has given somebody up.
test.concurrent("[4.6] a browser that dies is FAILED with exactly one network error", async () => {
  const room = await stage.stoa.rooms.create({ name: "death" });
  const page = await stage.page();
  await joinRoom(page, await stage.rtc(room.id, "carl"), ["camera"], 180);
  await told(room.id, "carl", ({ state }) => state === "CONNECTED");
  // Without a word, as when the machine loses power; a page that is closed says goodbye.
  const devtools = await page.context().newCDPSession(page);
  void devtools.send("Page.crash").catch(() => {});
  const record = await told(room.id, "carl", ({ disconnectedAt }) => disconnectedAt !== null);
  expect(record).toMatchObject({ state: "FAILED", disconnectReason: "timeout" });
  expect(record.errors).toMatchObject([{ category: "NETWORK_ERROR", likelyCause: expect.any(String) }]);
  expect(record.durationMs).toBeGreaterThan(0);
}, 180_000);

/** A page whose network, or middlebox, alters what browser and server say to each other. */
async function meddled(kind: "candidates" | "fingerprint", roomId: string, identity: string): Promise<void> {
  const page = await stage.page();
  await page.evaluate((kind) => {
    if (kind === "fingerprint") {
      // Where the SDK reads its offer: what it sends may be compressed.
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
        // Port 9 of this machine: nobody answers there.
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
  await Promise.all([meddled("candidates", room.id, "gina"), meddled("fingerprint", room.id, "hugo")]);
  const [blocked, altered] = await Promise.all([
    told(room.id, "gina", ({ errors }) => errors.length > 0),
    told(room.id, "hugo", ({ errors }) => errors.length > 0),
  ]);
  expect(blocked.errors).toMatchObject([{ category: "ICE_ERROR", code: "ice_timeout" }]);
  expect(blocked.joinTimeMs).toBeNull();
  expect(altered.errors).toMatchObject([{ category: "ICE_ERROR", code: "dtls_failed" }]);
}, 180_000);
