import { afterAll, describe, expect, test } from "bun:test";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { type Frame, rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, node } = server;

const mic = { mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" };
const cam = { mid: "1", clientTrackId: "cam", kind: "video", source: "camera", name: "front" };
const sessionId = ({ ack }: { ack: Frame }) => String(ack.sessionId);

/** Ada publishes microphone and camera, Bob watches. */
async function call() {
  const roomId = await server.room();
  const ada = await server.joined(roomId, "ada");
  const bob = await server.joined(roomId, "bob");
  clock.advance(5_000);
  const offer = await ada.ask("media.offer", { sdp: "v=0", publish: [mic, cam], subscribe: [] });
  node.connect(sessionId(ada));
  const [audio, video] = (offer.tracks as { trackId: string }[]).map(({ trackId }) => trackId);
  return { roomId, ada, bob, audio: String(audio), video: String(video) };
}

describe("[signaling] media.offer", () => {
  test("is answered with SDP and track ids, and others learn of the tracks when packets arrive", async () => {
    const roomId = await server.room();
    const ada = await server.joined(roomId, "ada");
    const bob = await server.joined(roomId, "bob");
    clock.advance(5_000);
    const answer = await ada.ask("media.offer", { sdp: "v=0", publish: [mic, cam], subscribe: [] });
    expect(answer).toMatchObject({
      type: "ack",
      sdp: expect.stringContaining("answer"),
      tracks: [{ clientTrackId: "mic" }, { clientTrackId: "cam" }],
    });
    expect(bob.of("track.published")).toEqual([]);
    node.connect(sessionId(ada));
    expect(bob.of("track.published")).toMatchObject([
      { identity: "ada", track: { kind: "audio", source: "microphone", name: null, muted: false } },
      { identity: "ada", track: { kind: "video", source: "camera", name: "front", simulcast: true } },
    ]);
    const carol = await server.joined(roomId, "carol");
    expect(carol.ack.participants).toContainEqual(
      expect.objectContaining({ identity: "ada", tracks: [expect.anything(), expect.anything()] }),
    );
  });

  test("passes every setting of a section on, and nothing that only a node may choose", async () => {
    const { bob, video } = await call();
    const { negotiate } = node;
    const asked: unknown[] = [];
    node.negotiate = (request) => {
      asked.push(request);
      return negotiate(request);
    };
    const viewing = { maxHeight: 360, layer: "medium", priority: 2, maxFps: 15 };
    const subscribe = [{ mid: "2", trackId: video, ...viewing, stream: "forged" }];
    await bob.ask("media.offer", { sdp: "v=0", publish: [{ ...mic, trackId: "forged" }], subscribe });
    node.negotiate = negotiate;
    expect(asked).toMatchObject([{ publish: [mic], subscribe: [{ mid: "2", trackId: video, ...viewing }] }]);
    expect(JSON.stringify(asked)).not.toContain("forged");
  });

  test("is deflated in both directions when plain SDP would exceed 8 KB", async () => {
    const ada = await server.joined(await server.room(), "ada");
    const long = `v=0\r\n${"a=candidate:1 1 udp 2122260223 192.0.2.1 50000 typ host\r\n".repeat(1000)}`;
    const sdpDeflate = deflateRawSync(long).toString("base64");
    const answer = await ada.ask("media.offer", { sdpDeflate, publish: [], subscribe: [] });
    expect(answer.sdp).toBeUndefined();
    expect(inflateRawSync(Buffer.from(String(answer.sdpDeflate), "base64")).toString()).toStartWith("v=0");
  });

  test("inflates to at most 128 KB", async () => {
    const ada = await server.joined(await server.room(), "ada");
    const sized = (bytes: number) => deflateRawSync(`v=0${" ".repeat(bytes - 3)}`).toString("base64");
    const offer = (sdpDeflate: string) => ada.ask("media.offer", { sdpDeflate, publish: [], subscribe: [] });
    expect((await offer(sized(128 * 1024))).type).toBe("ack");
    expect((await offer(sized(128 * 1024 + 1))).code).toBe("PAYLOAD_TOO_LARGE");
    const bomb = deflateRawSync(Buffer.alloc(8_000_000)).toString("base64");
    expect(bomb.length).toBeLessThan(16_000);
    expect((await offer(bomb)).code).toBe("PAYLOAD_TOO_LARGE");
    for (const junk of ["", "%%%", Buffer.from("not deflate").toString("base64")]) {
      expect((await offer(junk)).code).toBe("VALIDATION_FAILED");
    }
  });

  test("needs exactly one valid form of SDP", async () => {
    const ada = await server.joined(await server.room(), "ada");
    const offer = (fields: object) => ada.ask("media.offer", { publish: [], subscribe: [], ...fields });
    expect((await offer({})).code).toBe("VALIDATION_FAILED");
    expect((await offer({ sdp: "v=0", sdpDeflate: "x" })).code).toBe("VALIDATION_FAILED");
    expect((await offer({ sdp: "nonsense" })).code).toBe("NEGOTIATION_FAILED");
    expect(ada.closed).toBeNull();
  });

  test("requests are answered in order, each exactly once", async () => {
    const ada = await server.joined(await server.room(), "ada");
    const before = ada.frames.length;
    await Promise.all([
      ada.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] }),
      ada.ask("participant.update", { metadata: "x" }),
      ada.ask("track.mute", { trackId: "none", muted: true }),
    ]);
    const answers = ada.frames.slice(before).filter(({ id }) => id !== undefined);
    expect(answers.map(({ id, type }) => [id, type])).toEqual([
      ["r2", "ack"],
      ["r3", "ack"],
      ["r4", "error"],
    ]);
  });
});

describe("[2] permissions", () => {
  const none = { publish: false, publishAudio: false, publishVideo: false };
  test.each<[string, object, boolean, boolean]>([
    ["publish alone allows both kinds", { publish: true }, true, true],
    ["publishAudio restricts to audio", { publish: true, publishAudio: true }, true, false],
    ["publishVideo restricts to video", { publish: true, publishVideo: true }, false, true],
    ["both set allow both", { publish: true, publishAudio: true, publishVideo: true }, true, true],
    ["without publish the others mean nothing", { ...none, publishAudio: true, publishVideo: true }, false, false],
    ["nothing by default", {}, false, false],
  ])("%s", async (_rule, permissions, audio, video) => {
    const ada = await server.joined(await server.room(), "ada", { mint: { permissions } });
    for (const [section, allowed] of [
      [mic, audio],
      [cam, video],
    ] as const) {
      const answer = await ada.ask("media.offer", { sdp: "v=0", publish: [section], subscribe: [] });
      expect([answer.type, answer.code]).toEqual(allowed ? ["ack", undefined] : ["error", "PERMISSION_DENIED"]);
    }
  });

  test("subscribe: false refuses subscriptions, publishData: false data both ways", async () => {
    const { roomId, ada, audio } = await call();
    const eve = await server.joined(roomId, "eve", { mint: { permissions: { subscribe: false } } });
    const subscribe = [{ mid: "0", trackId: audio }];
    expect((await eve.ask("media.offer", { sdp: "v=0", publish: [], subscribe })).code).toBe("PERMISSION_DENIED");
    expect((await eve.ask("subscription.update", { tracks: subscribe })).code).toBe("PERMISSION_DENIED");
    expect((await eve.ask("data.send", { payload: "x" })).code).toBe("PERMISSION_DENIED");
    await ada.ask("data.send", { payload: "secret" });
    expect(eve.of("data")).toEqual([]);
  });
});

describe("[signaling] tracks and subscriptions", () => {
  test("mute, unmute and unpublish reach every participant, and only the owner may", async () => {
    const { ada, bob, audio } = await call();
    expect((await ada.ask("track.mute", { trackId: audio, muted: true })).type).toBe("ack");
    expect((await ada.ask("track.mute", { trackId: audio, muted: false })).type).toBe("ack");
    expect((await bob.ask("track.mute", { trackId: audio, muted: true })).code).toBe("TRACK_NOT_FOUND");
    expect((await bob.ask("track.unpublish", { trackId: audio })).code).toBe("TRACK_NOT_FOUND");
    expect((await ada.ask("track.unpublish", { trackId: audio })).type).toBe("ack");
    const seen = bob.frames.filter(({ type }) => type.startsWith("track."));
    expect(seen.map(({ type }) => type).slice(2)).toEqual(["track.muted", "track.unmuted", "track.unpublished"]);
    expect((await ada.ask("track.unpublish", { trackId: audio })).code).toBe("TRACK_NOT_FOUND");
  });

  test("subscription.update reaches the node; an unknown track is an error", async () => {
    const { bob, video } = await call();
    expect((await bob.ask("subscription.update", { tracks: [{ trackId: video, mid: "3" }] })).type).toBe("ack");
    expect(node.peers().find(({ participantId }) => participantId === sessionId(bob))?.subscriptions).toEqual([
      { trackId: video, mid: "3" },
    ]);
    expect((await bob.ask("subscription.update", { tracks: [{ trackId: "none", mid: "4" }] })).code).toBe(
      "TRACK_NOT_FOUND",
    );
    expect((await bob.ask("subscription.update", { tracks: [] })).code).toBe("VALIDATION_FAILED");
  });

  test("subscription.update passes every setting on, and nothing that only a node may choose", async () => {
    const { bob, video } = await call();
    const { updateSubscriptions } = node;
    const asked: unknown[] = [];
    node.updateSubscriptions = (request) => {
      asked.push(...request.tracks);
      return updateSubscriptions(request);
    };
    const viewing = { maxHeight: 360, layer: "medium", priority: 2, maxFps: 15, paused: true };
    await bob.ask("subscription.update", { tracks: [{ trackId: video, mid: "3", ...viewing, stream: "forged" }] });
    node.updateSubscriptions = updateSubscriptions;
    expect(asked).toEqual([{ trackId: video, mid: "3", ...viewing }]);
  });

  test("layers, deliveries, quality and speakers reach the participants concerned", async () => {
    const { roomId, ada, bob, video } = await call();
    const of = { roomId, participantId: sessionId(ada), identity: "ada" };
    const before = bob.frames.length;
    node.emit({ ...of, type: "layersWanted", trackId: video, layers: ["low"] });
    node.emit({ ...of, participantId: sessionId(bob), identity: "bob", ...delivered(video) });
    node.emit({ ...of, type: "qualityChanged", quality: "poor" });
    node.emit({ type: "speakersChanged", roomId, speakers: [{ identity: "ada", level: 0.5 }] });
    expect(ada.frames.at(-3)).toMatchObject({ type: "layers.wanted", trackId: video, layers: ["low"] });
    expect(bob.frames.slice(before).map(({ type }) => type)).toEqual([
      "subscription.changed",
      "quality.changed",
      "speakers.changed",
    ]);
    expect(ada.of("subscription.changed")).toEqual([]);
    expect(bob.of("layers.wanted")).toEqual([]);
  });

  test("a participant whose packets stop is shown as reconnecting, and back", async () => {
    const { roomId, ada, bob } = await call();
    const of = { roomId, participantId: sessionId(ada), identity: "ada" };
    node.emit({ ...of, type: "participantDisconnected", reason: "consent_timeout" });
    node.emit({ ...of, type: "participantReconnected", transport: "udp", remoteAddress: "127.0.0.1" });
    node.emit({ ...of, type: "participantFailed", reason: "ice_timeout" });
    const states = bob.of("participant.updated").map(({ participant }) => (participant as { state: string }).state);
    expect(states).toEqual(["RECONNECTING", "CONNECTED", "FAILED"]);
  });
});

test("[signaling] only a participant whose media stalls is notified, and again when it flows", async () => {
  const { roomId, ada, bob } = await call();
  const of = { roomId, participantId: sessionId(ada), identity: "ada" };
  node.emit({ ...of, type: "mediaStalled" });
  node.emit({ ...of, type: "mediaFlows" });
  expect(ada.of("media.flows")).toHaveLength(1);
  expect(ada.of("media.stalled")).toHaveLength(1);
  expect(bob.of("media.stalled")).toEqual([]);
  expect(bob.of("media.flows")).toEqual([]);
});

test("[signaling] only the participant whose data is dropped is notified", async () => {
  const { roomId, ada, bob } = await call();
  const of = { roomId, participantId: sessionId(ada), identity: "ada" };
  node.emit({ ...of, type: "dataDropped", messages: 7, reason: "rate_limited" });
  expect(ada.of("data.dropped")).toMatchObject([{ messages: 7, reason: "rate_limited" }]);
  expect(bob.of("data.dropped")).toEqual([]);
});

test("[signaling] a sender is told about slow readers on other workers, and nobody else is", async () => {
  const { roomId, ada, bob } = await call();
  const reader = { roomId, from: "ada", reader: "bob" };
  node.emit({ ...reader, type: "relayedDataBehind", bytes: 2_000_000 });
  node.emit({ ...reader, type: "relayedDataDropped", messages: 3, reason: "slow_reader" });
  node.emit({ ...reader, from: "nobody", type: "relayedDataBehind", bytes: 2_000_000 });
  expect(ada.of("data.behind")).toMatchObject([{ identity: "bob", bytes: 2_000_000 }]);
  expect(ada.of("data.dropped")).toMatchObject([{ messages: 3, reason: "slow_reader", identity: "bob" }]);
  expect([...bob.of("data.behind"), ...bob.of("data.dropped")]).toEqual([]);
});

const delivered = (trackId: string) =>
  ({ type: "subscriptionChanged", trackId, layer: "low", paused: false, reason: "bandwidth" }) as const;

describe("[signaling] data and metadata", () => {
  test("data.send reaches all others or the named ones, with at most 8192 bytes", async () => {
    const roomId = await server.room();
    const [ada, bob, carol] = await Promise.all(["ada", "bob", "carol"].map((name) => server.joined(roomId, name)));
    if (!ada || !bob || !carol) throw new Error("join");
    await ada.ask("data.send", { topic: "t", payload: "all" });
    await ada.ask("data.send", { payload: "bob only", to: ["bob", "nobody"] });
    const got = (client: typeof ada) => client.of("data").map(({ from, topic, payload }) => [from, topic, payload]);
    expect(got(bob)).toEqual([
      ["ada", "t", "all"],
      ["ada", undefined, "bob only"],
    ]);
    expect(got(carol)).toEqual([["ada", "t", "all"]]);
    expect(got(ada)).toEqual([]);
    expect((await ada.ask("data.send", { payload: "x".repeat(8_192) })).type).toBe("ack");
    expect((await ada.ask("data.send", { payload: "x".repeat(8_193) })).type).toBe("error");
    expect((await ada.ask("data.send", { payload: "é".repeat(4_097) })).code).toBe("PAYLOAD_TOO_LARGE");
  });

  test("participant.update changes the public metadata, with at most 1024 characters, and null clears it", async () => {
    const { ada, bob } = await call();
    const update = (metadata: unknown) => ada.ask("participant.update", { metadata });
    expect((await update("hello")).type).toBe("ack");
    expect((await update("🎥".repeat(1024))).type).toBe("ack");
    expect((await update("🎥".repeat(1025))).type).toBe("error");
    expect((await update(null)).type).toBe("ack");
    const seen = bob.of("participant.updated").map(({ participant }) => (participant as { metadata: string }).metadata);
    expect(seen).toEqual(["hello", "🎥".repeat(1024), null as unknown as string]);
    expect((await update(7)).code).toBe("VALIDATION_FAILED");
  });
});

describe("[8] the message budget of a connection", () => {
  test("100 messages in a window are accepted, and each further one gets an error with its id and the time left", async () => {
    const ada = await server.joined(await server.room(), "ada");
    for (let sent = 1; sent < 100; sent++) expect((await ada.ask("ping")).type).toBe("pong");
    expect(await ada.ask("ping")).toMatchObject({ type: "error", code: "RATE_LIMITED", retryAfterSeconds: 60 });
    expect(await ada.ask("participant.update", { metadata: "x" })).toMatchObject({ code: "RATE_LIMITED" });
    clock.advance(60_000);
    expect((await ada.ask("ping")).type).toBe("pong");
  });

  test("another 100 messages in the same window close the socket with 4429, and the participant may resume", async () => {
    const ada = await server.joined(await server.room(), "ada");
    for (let sent = 1; sent < 199; sent++) ada.send({ type: "ping" });
    expect(ada.closed).toBeNull();
    ada.send({ type: "ping" });
    expect(ada.closed?.code).toBe(4429);
    await settled();
    expect(node.peers().some(({ participantId }) => participantId === sessionId(ada))).toBe(true);
  });
});

test("[10] a slow reader is disconnected and resumes without delaying others", async () => {
  const { roomId, ada, bob } = await call();
  bob.unread = 1024 * 1024 + 1;
  node.emit({ type: "speakersChanged", roomId, speakers: [] });
  expect(bob.closed?.code).toBe(1013);
  expect(ada.closed).toBeNull();
  const { connectionId } = bob.ack.participant as { connectionId: string };
  const { sessionId: id, resumeToken } = bob.ack;
  const { token } = await server.mint(roomId, "bob");
  const again = server.connect(token);
  const ack = await again.join({ connectionId, resume: { sessionId: id, resumeToken, lastSeq: 1 } });
  expect(ack.mode).toBe("resumed");
  expect(again.of("speakers.changed")).toHaveLength(1);
});
