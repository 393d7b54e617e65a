import { describe, expect, test } from "bun:test";
import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type { Message } from "../../../src/protocol/chat-records.ts";
import { LAYER_RIDS } from "../../../src/protocol/room-records.ts";
import { Outbox, type Outgoing, pendingMessage } from "../../../web/sdk/chat/outbox.ts";
import { Timeline } from "../../../web/sdk/chat/timeline.ts";
import { closeError, StoaError } from "../../../web/sdk/errors.ts";
import { LocalTrack, type PublishOptions } from "../../../web/sdk/room/local-track.ts";
import { activateOnly, videoEncodings } from "../../../web/sdk/room/peer/encodings.ts";
import { type AudioContent, tuneOpusAnswer, tuneOpusOffer } from "../../../web/sdk/room/peer/opus.ts";
import { packSdp, unpackSdp } from "../../../web/sdk/room/peer/sdp.ts";
import { UpdateThrottle } from "../../../web/sdk/room/peer/subscriptions.ts";

const where = { conversationId: "conv_1", senderId: "anna", senderName: "anna" };
const outgoing = (id: string): Outgoing => ({ input: { text: id }, clientMessageId: id, clientSentAt: 0 });
const message = (seq: number): Message => {
  const { status: _, ...record } = pendingMessage(outgoing(`m${seq}`), where);
  return { ...record, id: `msg_${seq}`, seq };
};

describe("timeline", () => {
  test("messages are ordered by seq and listed once, in whatever order they arrive", () => {
    const timeline = new Timeline();
    for (const seq of [3, 1, 2, 3]) timeline.put(message(seq));
    expect(timeline.messages.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  test("a pending message comes last and is replaced by the server's message", () => {
    const timeline = new Timeline();
    timeline.addPending(pendingMessage(outgoing("m9"), where));
    timeline.put(message(1));
    expect(timeline.messages.map(({ status }) => status)).toEqual(["sent", "sending"]);
    timeline.put(message(9));
    expect(timeline.messages.map(({ id }) => id)).toEqual(["msg_1", "msg_9"]);
  });

  test("the list is the same array until something changes, and a new one after every change", () => {
    const timeline = new Timeline();
    let last = timeline.messages;
    const changes: [string, () => void][] = [
      ["a send", () => timeline.addPending(pendingMessage(outgoing("m1"), where))],
      ["its failure", () => timeline.markFailed("m1")],
      ["its end", () => timeline.dropPending("m1")],
      ["a message", () => void timeline.put(message(2))],
      ["an edit", () => void timeline.put({ ...message(2), text: "new" })],
      [
        "a reaction",
        () =>
          timeline.apply({
            type: "reaction.added",
            seq: 3,
            conversationId: "conv_1",
            messageId: "msg_2",
            userId: "bob",
            emoji: "👋",
            at: "",
            reactions: [{ emoji: "👋", count: 1, userIds: ["bob"] }],
          } as ChatEvent),
      ],
      ["a reset", () => timeline.reset([message(5)])],
    ];
    for (const [what, change] of changes) {
      expect(timeline.messages).toBe(last);
      change();
      expect(timeline.messages === last, what).toBe(false);
      last = timeline.messages;
    }
  });
});

test("the error for a refused token says what to do, any other error has the server's message", () => {
  const frame = { code: "SVC_AUTH_ERROR", message: "A valid credential is required." };
  expect(closeError(4401, frame)).toMatchObject({
    code: "AUTH_ERROR",
    reason: "token-invalid",
    message: "The token is wrong or was revoked. Ask your backend for a new one.",
  });
  const origin = { code: "SVC_ORIGIN_NOT_ALLOWED", message: "This origin is not allowed." };
  expect(closeError(4403, origin)).toMatchObject({
    code: "ORIGIN_NOT_ALLOWED",
    reason: "not-allowed",
    message: origin.message,
  });
  expect(closeError(1006)).toBeNull();
});

test("the outbox delivers messages one after another, and a refused one does not block the next", async () => {
  const tried: string[] = [];
  const outbox = new Outbox(async ({ clientMessageId }) => {
    tried.push(clientMessageId);
    await Promise.resolve();
    if (clientMessageId === "b") throw new StoaError("RATE_LIMITED", "rate-limited", "later");
    return message(tried.length);
  });
  const sent = ["a", "b", "c"].map((clientMessageId) => outbox.add({ clientMessageId }).done);
  const outcome = await Promise.allSettled(sent);
  expect(tried).toEqual(["a", "b", "c"]);
  expect(outcome.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

test("layers without subscribers are deactivated by the protocol's rids", () => {
  const encodings = videoEncodings("camera", 720, { simulcast: true }).map((one) => ({ ...one, active: true }));
  expect(encodings.map(({ rid }) => rid)).toEqual(Object.values(LAYER_RIDS));
  expect(activateOnly(encodings, ["low"])).toBe(true);
  expect(encodings.map(({ active }) => active)).toEqual([true, false, false]);
  expect(activateOnly(encodings, ["low"])).toBe(false);
});

test("updates are sent at once until a quarter of the server's rate limit is used", () => {
  const throttle = new UpdateThrottle();
  throttle.setLimits({ maxMessageBytes: 1, messagesPerWindow: 8, windowSeconds: 60, maxParticipants: 2 });
  for (const spent of [0, 1]) {
    expect(throttle.delayMs(1000)).toBe(40);
    expect(spent).toBeLessThan(2);
    throttle.spent(1000);
  }
  expect(throttle.delayMs(1000)).toBe(15_000);
  expect(throttle.delayMs(62_000)).toBe(40);
});

test.each(["VP9", "AV1"] as const)(
  "%s is sent as separate simulcast layers, with a scalability mode on every encoding",
  (codec) => {
    const modes = (simulcast: boolean) =>
      videoEncodings("camera", 720, { simulcast, codec }).map(
        (encoding) => (encoding as { scalabilityMode?: string }).scalabilityMode,
      );
    expect(modes(true)).toEqual(["L1T1", "L1T1", "L1T1"]);
    expect(modes(false)).toEqual(["L1T1"]);
    expect(videoEncodings("camera", 720, { simulcast: true, codec: "VP8" })).toEqual(
      videoEncodings("camera", 720, { simulcast: true }),
    );
  },
);

describe("opus parameters", () => {
  const section = (mid: string, direction: string, parameters = "minptime=10;useinbandfec=1") =>
    `m=audio 9 X 63 111\r\na=mid:${mid}\r\na=${direction}\r\na=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n` +
    `a=rtpmap:111 opus/48000/2\r\na=rtcp-fb:111 transport-cc\r\na=fmtp:111 ${parameters}\r\n`;
  const video = "m=video 9 X 96\r\na=mid:9\r\na=recvonly\r\na=rtpmap:96 VP8/90000\r\na=fmtp:96 x=1\r\n";

  test("a voice has DTX; music has stereo, a rate and no DTX", () => {
    const contents: Record<string, AudioContent> = { 0: "voice", 1: { maxBitrate: 128_000 } };
    const answer = section("0", "recvonly") + section("1", "recvonly") + section("2", "sendonly") + video;
    const changed = tuneOpusAnswer(answer, (mid) => contents[mid]);
    const parameters = [...changed.matchAll(/^a=fmtp:111 (.*)\r$/gm)].map(([, text]) => text);
    expect(parameters).toEqual([
      "minptime=10;useinbandfec=1;usedtx=1",
      "minptime=10;useinbandfec=1;usedtx=0;cbr=0;stereo=1;sprop-stereo=1;maxaveragebitrate=128000",
      "minptime=10;useinbandfec=1",
    ]);
    expect(changed).toEndWith(video);
    expect(tuneOpusAnswer(changed, (mid) => contents[mid])).toBe(changed);
  });

  test("a screen's audio and what is published as music are music, a microphone is not", () => {
    const CONTEXT = { serverUrl: "http://127.0.0.1:7000" };
    const track = { kind: "audio", getSettings: () => ({}) } as unknown as MediaStreamTrack;
    const sent = (options: PublishOptions) => {
      const { music, maxBitrate } = new LocalTrack(track, options, CONTEXT);
      return { music, maxBitrate };
    };
    expect(sent({ source: "microphone" })).toEqual({ music: false, maxBitrate: 48_000 });
    expect(sent({ source: "screenShareAudio" })).toEqual({ music: true, maxBitrate: 128_000 });
    expect(sent({ source: "microphone", music: true })).toEqual({ music: true, maxBitrate: 128_000 });
    const encodings = [{ maxBitrate: 256_000 }];
    expect(sent({ music: true, encodings })).toEqual({ music: true, maxBitrate: 256_000 });
    const video = { kind: "video", getSettings: () => ({ height: 720 }) } as unknown as MediaStreamTrack;
    expect(new LocalTrack(video, { music: true }, CONTEXT).music).toBe(false);
  });

  test("the offer enables NACK for all audio sections and stereo for receiving ones", () => {
    const offer = section("0", "sendonly") + section("2", "recvonly") + video;
    const changed = tuneOpusOffer(offer);
    expect(changed.match(/^a=rtcp-fb:111 nack\r$/gm)).toHaveLength(2);
    expect([...changed.matchAll(/^a=fmtp:111 (.*)\r$/gm)].map(([, text]) => text)).toEqual([
      "minptime=10;useinbandfec=1",
      "minptime=10;useinbandfec=1;stereo=1",
    ]);
    expect(changed).toEndWith(video);
    expect(tuneOpusOffer(changed)).toBe(changed);
  });
});

test("a large offer is compressed and restored; a browser without compression sends it as it is", async () => {
  const sdp = "a=candidate ".repeat(2_000);
  const { sdpDeflate } = await packSdp(sdp);
  expect(sdpDeflate?.length).toBeLessThan(1_000);
  expect(await unpackSdp({ sdpDeflate })).toBe(sdp);
  const before = [globalThis.CompressionStream, globalThis.DecompressionStream] as const;
  try {
    Object.assign(globalThis, { CompressionStream: undefined, DecompressionStream: undefined });
    expect(await packSdp(sdp)).toEqual({ sdp });
    expect(unpackSdp({ sdpDeflate })).rejects.toMatchObject({ reason: "unsupported" });
  } finally {
    Object.assign(globalThis, { CompressionStream: before[0], DecompressionStream: before[1] });
  }
});
