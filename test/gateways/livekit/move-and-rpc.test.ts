// MoveParticipant, ForwardParticipant and PerformRpc of LiveKit's server API, without a browser.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { DisconnectReason, LeaveRequest_Action, ParticipantInfo_KindDetail } from "@livekit/protocol";
import type { Layer } from "../../../src/protocol/room-records.ts";
import type { Push } from "../../../src/protocol/signaling.ts";
import { bars, join, type Participant, RequestError, tone } from "../../../src/rtc-client/participant/participant.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import type { PeerSection } from "../../../src/rtc-client/sdp.ts";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import { until } from "../../nodes/remote/until.ts";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
const open: Participant[] = [];
beforeAll(async () => {
  stage = await openStage({ MEDIA_WORKERS: 2 });
}, 120_000);
afterAll(async () => {
  for (const participant of open) await participant.close();
  await stage.close();
});

async function enter(room: string, user: string): Promise<Participant> {
  const { rtc } = await stage.stoa.mintJoin({ room, user });
  const participant = await join(rtc.endpoint, rtc.token);
  open.push(participant);
  return participant;
}

async function twirp(method: string, grant: object, body: object) {
  const authorization = `Bearer ${await stage.token("", "backend", { grant: { roomJoin: false, ...grant } })}`;
  const response = await fetch(`${stage.server.url}/twirp/livekit.RoomService/${method}`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return [response.status, (await response.json()) as Record<string, string>] as const;
}

const rpc = (room: string, to: string, method: string, payload = "", more = {}) =>
  twirp("PerformRpc", { roomAdmin: true, room }, { room, destination_identity: to, method, payload, ...more });

test("a LiveKit client learns of its new room and gets a token that joins it with the same name and permissions", async () => {
  const grant = { canPublish: false, canUpdateOwnMetadata: true };
  const options = { name: "Ann Ö", attributes: { a: "1" }, metadata: "m", grant };
  const ann = await RawClient.open(stage.wsUrl, await stage.token("here", "ann", options));
  await ann.hears("join");
  const ben = await RawClient.open(stage.wsUrl, await stage.token("here", "ben"));
  await ben.hears("join");
  await stage.rooms.moveParticipant("here", "ann", "there ü");
  const { token, room } = await ann.hears("roomMoved");
  expect(room?.name).toBe("there ü");
  expect(await ann.hears("leave")).toMatchObject({
    action: LeaveRequest_Action.RECONNECT,
    reason: DisconnectReason.MIGRATION,
  });
  const again = await RawClient.open(stage.wsUrl, token);
  const joined = await again.hears("join");
  expect(joined.room?.name).toBe("there ü");
  expect(joined.participant).toMatchObject({
    identity: "ann",
    name: "Ann Ö",
    attributes: { a: "1" },
    metadata: "m",
    permission: { canPublish: false, canUpdateMetadata: true, canSubscribe: true },
  });
  expect((await stage.rooms.listParticipants("here")).map(({ identity }: { identity: string }) => identity)).toEqual([
    "ben",
  ]);
  expect(ben.heard.some((one) => one.case === "roomMoved")).toBe(false);

  const move = { room: "here", identity: "ben", destination_room: "there ü" };
  for (const method of ["MoveParticipant", "ForwardParticipant"]) {
    const denied = await twirp(method, { roomAdmin: true, room: "here" }, move);
    expect(denied).toMatchObject([403, { code: "permission_denied" }]);
  }
  const absent = { ...move, identity: "nobody" };
  const grants = { roomAdmin: true, room: "here", destinationRoom: "there ü" };
  expect(await twirp("MoveParticipant", grants, absent)).toMatchObject([404, { code: "not_found" }]);
  for (const client of [ann, ben, again]) client.close();
});

test("a participant of stoa/participant follows a move, and what it publishes is heard in the other room", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "breakout" });
  const [mover, listener] = [await enter("main", "mover"), await enter("breakout", "listener")];
  const heard = new Promise<void>((done) => {
    listener.on("audio", ({ identity }) => identity === "mover" && done());
  });
  await mover.publishAudio(tone({ hz: 440 }));
  const moved = new Promise((done) => mover.on("moved", done));
  await stage.rooms.moveParticipant("main", "mover", "breakout");
  expect(await moved).toMatchObject({ id, name: "breakout" });
  await heard;
  expect(mover.room.name).toBe("breakout");
  expect([...mover.participants.keys()]).toEqual(["listener"]);
}, 60_000);

/** Waits for an event of a participant that `matches`. */
function event<E extends "audio" | "video" | "trackUnpublished" | "participantUpdated" | "participantLeft">(
  participant: Participant,
  name: E,
  // biome-ignore lint/suspicious/noExplicitAny: the arguments differ with the event
  matches: (...args: any[]) => boolean = () => true,
): Promise<void> {
  return new Promise((resolve) => {
    const off = participant.on(name, (...args: unknown[]) => {
      if (!matches(...args)) return;
      off();
      resolve();
    });
  });
}

test("a forwarded participant is heard and seen in the other room on another worker, until it leaves there or here", async () => {
  const ann = await enter("talk", "ann");
  const listener = await enter("overflow", "listener");
  const voice = await ann.publishAudio(tone({ hz: 440 }));
  const camera = await ann.publishVideo(bars());
  const raw = await RawClient.open(stage.wsUrl, await stage.token("overflow", "raw"));
  await raw.hears("join");

  const isAnns = ({ identity }: { identity: string }) => identity === "ann";
  const isLoud = ({ identity, samples }: { identity: string; samples: Int16Array }) =>
    identity === "ann" && samples.some((sample) => Math.abs(sample) > 1_000);
  const heard = event(listener, "audio", isLoud);
  const seen = event(listener, "video", (frame) => isAnns(frame) && frame.keyframe);
  await stage.rooms.forwardParticipant("talk", "ann", "overflow");
  await Promise.all([heard, seen]);
  const info = await stage.rooms.getParticipant("overflow", "ann");
  expect(info).toMatchObject({ kindDetails: [ParticipantInfo_KindDetail.FORWARDED], isPublisher: true });
  expect((await stage.rooms.getParticipant("talk", "ann")).kindDetails).toEqual([]);
  await expect(stage.rooms.forwardParticipant("talk", "ann", "overflow")).rejects.toMatchObject({
    code: "already_exists",
  });
  await expect(stage.rooms.forwardParticipant("talk", "ann", "talk")).rejects.toMatchObject({
    code: "invalid_argument",
  });

  const renamed = event(listener, "participantUpdated", (one) => isAnns(one) && one.name === "Ann Ö");
  await stage.rooms.updateParticipant("talk", "ann", { name: "Ann Ö", metadata: "m", attributes: { hand: "up" } });
  await renamed;
  expect(await stage.rooms.getParticipant("overflow", "ann")).toMatchObject({
    name: "Ann Ö",
    metadata: "m",
    attributes: { hand: "up" },
  });

  await voice.mute();
  await raw.hears("update", ({ participants }) =>
    participants.some((one) => isAnns(one) && one.tracks.some(({ muted }) => muted)),
  );
  const again = event(listener, "audio", isLoud);
  await voice.mute(false);
  await again;
  const ended = event(listener, "trackUnpublished", ({ kind }, by) => kind === "video" && isAnns(by));
  await camera.stop();
  await ended;

  const removed = event(listener, "participantLeft", isAnns);
  await stage.rooms.removeParticipant("overflow", "ann");
  await removed;
  expect(ann.room.name).toBe("talk");
  expect((await stage.rooms.listParticipants("talk")).map(({ identity }: { identity: string }) => identity)).toEqual([
    "ann",
  ]);

  const back = event(listener, "audio", isLoud);
  await stage.rooms.forwardParticipant("talk", "ann", "overflow");
  await back;
  const left = event(listener, "participantLeft", isAnns);
  await ann.close();
  await left;
  raw.close();
}, 60_000);

/** Another client of the RTC socket, with media of its own. */
async function openPeer(room: string, user: string, sections: PeerSection[], onPush: (push: Push) => void = () => {}) {
  const { rtc } = await stage.stoa.mintJoin({ room, user });
  const url = rtc.endpoint.replace(/^ws/, "http").replace(/\/v1\/rtc.*/, "");
  const client = new SignalingClient({ url, token: rtc.token, onPush });
  const { participants } = await client.join();
  const sizes = new Set<number>();
  const peer = await RtcPeer.create({
    node: client,
    roomId: "",
    participantId: "",
    sections,
    onRtp: ({ payloadLength }) => void sizes.add(payloadLength),
  });
  const close = async () => {
    peer.close();
    await client.leave();
  };
  return { client, peer, participants, sizes, close };
}

test("a viewer in the other room gets the layer of a forwarded simulcast video that it wants, and only wanted ones are encoded", async () => {
  const rids = ["q", "h", "f"];
  const sizes = [100, 200, 300];
  const wanted: string[][] = [];
  const pat = await openPeer("three-layers", "pat", [{ kind: "video", direction: "sendonly", rids }], (push) => {
    if (push.type === "layers.wanted") wanted.push(push.layers);
  });
  await pat.peer.connect([{ mid: "0", clientTrackId: "camera", kind: "video", source: "camera" }], []);
  const sources = rids.map((rid, at) => new RtpSource({ ssrc: 5_000 + at, payloadType: 96, mid: "0", rid }));
  const camera = setInterval(() => {
    for (const [at, source] of sources.entries()) source.sendFrame(pat.peer, true, 1, sizes[at]);
  }, 50);
  await stage.rooms.forwardParticipant("three-layers", "pat", "balcony");

  const viewerOf = async (layer: Layer) => {
    const published = Promise.withResolvers<string>();
    const receiving = { kind: "video", direction: "recvonly", feedback: "goog-remb" } as const;
    const viewer = await openPeer("balcony", layer, [receiving], (push) => {
      if (push.type === "track.published") published.resolve(push.track.id);
    });
    for (const { tracks } of viewer.participants) if (tracks[0]) published.resolve(tracks[0].id);
    await viewer.peer.connect([], [{ mid: "0", trackId: await published.promise, layer }]);
    viewer.peer.sendRemb(20_000_000);
    return viewer;
  };
  const [low, high] = [await viewerOf("low"), await viewerOf("high")];
  await until(() => low.sizes.has(100) && high.sizes.has(300));
  expect([...low.sizes]).not.toContain(300);
  await high.close();
  await until(() => wanted.at(-1)?.join() === "low");
  const again = await viewerOf("medium");
  await until(() => again.sizes.has(200));
  await until(() => wanted.at(-1)?.join() === "low,medium");
  clearInterval(camera);
  for (const one of [low, again, pat]) await one.close();
}, 60_000);

test("PerformRpc asks one participant and reports LiveKit's codes", async () => {
  const [ann, eve] = [await enter("asked", "ann"), await enter("asked", "eve")];
  const asked: string[] = [];
  ann.onRequest("add", (payload, from) => {
    asked.push(from);
    return String(Number(payload) + 1);
  });
  eve.onRequest("add", () => "not asked");
  const slow: string[] = [];
  ann.onRequest("slow", (payload) => {
    slow.push(payload);
    return new Promise(() => {});
  });
  ann.onRequest("refuse", () => {
    throw new RequestError(7, "no", "because");
  });
  ann.onRequest("large", () => "x".repeat(15_361));
  ann.onRequest("full", () => "x".repeat(15_360));
  expect(await rpc("asked", "ann", "add", "41")).toEqual([200, { payload: "42" }]);
  // The caller is the request, and no participant of the room can be taken for it.
  expect(asked[0]).toMatch(/^[0-9a-f-]{36}$/);
  expect((await rpc("asked", "ann", "full"))[1].payload).toHaveLength(15_360);
  const failures = [
    ["none", 400, "invalid_argument", "RpcError 1400"],
    ["refuse", 500, "unknown", "RpcError 7: no: because"],
    ["large", 500, "internal", "RpcError 1504"],
  ] as const;
  for (const [method, status, code, message] of failures) {
    expect(await rpc("asked", "ann", method)).toEqual([status, { code, msg: expect.stringContaining(message) }]);
  }
  const late = await rpc("asked", "ann", "slow", "", { response_timeout_ms: 300 });
  expect(late).toEqual([408, { code: "canceled", msg: expect.stringContaining("RpcError 1502") }]);
  const tooLarge = await rpc("asked", "ann", "add", "x".repeat(15_361));
  expect(tooLarge).toEqual([400, { code: "malformed", msg: expect.stringContaining("RpcError 1402") }]);
  expect(await rpc("asked", "nobody", "add")).toMatchObject([404, { code: "not_found" }]);
  const foreign = await twirp("PerformRpc", { roomAdmin: true, room: "other" }, { room: "asked", method: "add" });
  expect(foreign).toMatchObject([403, { code: "permission_denied" }]);
  const left = rpc("asked", "ann", "slow", "leave");
  await until(() => slow.includes("leave"));
  await ann.close();
  expect(await left).toEqual([503, { code: "unavailable", msg: expect.stringContaining("RpcError 1503") }]);
}, 60_000);
