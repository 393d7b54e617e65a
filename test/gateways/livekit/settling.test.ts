import { afterAll, beforeAll, expect, test } from "bun:test";
import { LeaveRequest, SessionDescription, SignalRequest, SignalResponse } from "@livekit/protocol";
import { SignJWT } from "jose";
import { readJoinParameters } from "../../../src/gateways/livekit/join-request.ts";
import type { SocketEvents, TopicSocket } from "../../../src/kernel/socket/sockets.ts";
import { type RtcServer, rtcServer, settled, until } from "../../harness/rtc.ts";

let server: RtcServer;
beforeAll(async () => {
  server = await rtcServer();
});
afterAll(() => server.close());

const SETTLED_MS = 2_500;
const VISIT = { ipAddress: "127.0.0.1", userAgent: "test", origin: null };
const MIC = { mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" };
/** One audio and one video section. */
const OFFER = ["audio 9 x 111", "video 9 x 96"]
  .map((line, mid) => `m=${line}\r\na=mid:${mid}\r\na=recvonly\r\n`)
  .reduce((before, section) => before + section, "v=0\r\n");

function tokenOf(room: string, identity: string): Promise<string> {
  const publicId = /^svk_dev_(\w+)\./.exec(server.key)?.[1] ?? "";
  return new SignJWT({ video: { roomJoin: true, room } })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(publicId)
    .setSubject(identity)
    .setExpirationTime(new Date(server.clock.now() + 3_600_000))
    .sign(Buffer.from(server.services.apiKeys.signingSecret(publicId)));
}

/** One of LiveKit's clients at the other end of a socket that never leaves the process, once it is welcomed. */
async function enter(token: string, sdk = "js") {
  const { connections } = server.services.livekitClients;
  const request = new Request(`http://localhost/rtc?protocol=16&sdk=${sdk}`);
  const admitted = await connections.admit(token, VISIT, () => readJoinParameters(request, "one"));
  const heard: SignalResponse["message"][] = [];
  const socket: TopicSocket = {
    send() {},
    sendTogether() {},
    subscribe() {},
    unsubscribe() {},
    close() {},
    bufferedBytes: 0,
    sendBytes: (data) => void heard.push(SignalResponse.fromBinary(data).message),
    ping: () => events.pong?.(),
  };
  const events: SocketEvents = connections.connect(socket, admitted);
  const say = async (message: SignalRequest["message"]) => {
    const bytes = Buffer.from(new SignalRequest({ message }).toBinary());
    events.received(null, bytes.length, bytes);
    await settled();
  };
  await until(() => heard.length > 0);
  return {
    say,
    offers: () => say({ case: "offer", value: new SessionDescription({ type: "offer", sdp: OFFER, id: 1 }) }),
    /** The participants it was told of since it joined, without itself, with the number of their tracks. */
    told: () =>
      heard.flatMap((one) => {
        if (one.case !== "update") return [];
        const others = one.value.participants.filter(({ identity }) => identity !== "ann");
        return others.map(({ identity, tracks }) => `${identity} ${tracks.length}`);
      }),
    others: () => (heard[0]?.case === "join" ? heard[0].value.otherParticipants.map((one) => one.identity) : []),
    count: (name: string) => heard.filter((one) => one.case === name).length,
    /** The tracks on the sections of its last answer. */
    placedMids: () => {
      const last = heard.findLast((one) => one.case === "answer");
      return last?.case === "answer" ? Object.keys(last.value.midToTrackId) : [];
    },
  };
}

/** A participant of our own SDK with an audio track. */
async function speaks(roomId: string, identity: string) {
  const client = await server.joined(roomId, identity);
  await client.ask("media.offer", { sdp: "v=0", publish: [MIC], subscribe: [] });
  server.node.connect(String(client.ack.sessionId));
  await settled();
  return client;
}

/** Ann was in the room with this token, and is not any more. */
async function wasThere(room: string): Promise<string> {
  const token = await tokenOf(room, "ann");
  const before = await enter(token);
  await before.say({ case: "leave", value: new LeaveRequest() });
  return token;
}

test("a rejoining browser client learns of new participants only when it can emit them, and then of all", async () => {
  const roomId = await server.room("anew");
  const token = await wasThere("anew");
  await speaks(roomId, "ben");
  const ann = await enter(token);
  // Participants who were already there are in the join response, and announced at once.
  expect(ann.others()).toEqual(["ben"]);
  await ann.offers();
  expect(ann.placedMids()).toEqual(["0"]);

  await speaks(roomId, "carl");
  await ann.offers();
  server.clock.advance(SETTLED_MS - 1);
  await settled();
  expect(ann.told()).toEqual([]);
  expect([ann.placedMids(), ann.count("mediaSectionsRequirement")]).toEqual([["0"], 0]);

  server.clock.advance(1);
  await settled();
  expect(ann.told().sort()).toEqual(["ben 1", "carl 1"]);
  expect(ann.count("mediaSectionsRequirement")).toBe(1);
  await speaks(roomId, "dora");
  expect(ann.told()).toContain("dora 1");
});

test("a participant who left meanwhile is never announced, and tracks without a section wait too", async () => {
  const roomId = await server.room("many");
  const token = await wasThere("many");
  await speaks(roomId, "ben");
  await speaks(roomId, "carl");
  const ann = await enter(token);
  await ann.offers();
  const dora = await speaks(roomId, "dora");
  await dora.ask("room.leave");
  await settled();
  expect([ann.placedMids(), ann.told(), ann.count("mediaSectionsRequirement")]).toEqual([["0"], [], 0]);
  server.clock.advance(SETTLED_MS);
  await settled();
  expect(ann.told().sort()).toEqual(["ben 1", "carl 1"]);
  expect(ann.count("mediaSectionsRequirement")).toBe(1);
});

test("a first join, or another LiveKit SDK, learns of all participants immediately", async () => {
  for (const [room, sdk, tokenFor] of [
    ["first", "js", (room: string) => tokenOf(room, "ann")],
    ["native", "go", wasThere],
  ] as const) {
    const roomId = await server.room(room);
    const ann = await enter(await tokenFor(room), sdk);
    await speaks(roomId, "ben");
    expect(ann.told()).toContain("ben 1");
  }
});
