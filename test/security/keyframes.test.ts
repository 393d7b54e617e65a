import { afterAll, expect, test } from "bun:test";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { writePli } from "../../src/sfu/wire/rtcp/rtcp-write.ts";
import { realServer } from "../harness/real-server.ts";

const server = await realServer();
afterAll(() => server.close());

const ATTACK_MS = 14_000;
const AT_ONCE = 16;
const PER_SECOND = 0.25;
/** The keyframes that the publisher is asked for besides: its first one, and one for each subscriber that joins. */
const ANYWAY = 3;
const FRAME_EVERY_MS = 40;
const ATTACK_EVERY_MS = 100;

type Push = { type: string; track?: { id: string } };

async function seated(roomId: string, identity: string, onPush: (push: Push) => void = () => {}) {
  const { token } = await server.mint(roomId, identity);
  const client = new SignalingClient({ url: server.url, token, onPush: (push) => onPush(push as Push) });
  await client.join();
  return { client, where: { node: { negotiate: client.negotiate }, roomId: "", participantId: "" } };
}

test("a viewer's keyframe requests are limited below two per second, whatever kind of request it sends", async () => {
  const roomId = await server.room();
  const published = Promise.withResolvers<string>();
  const publisher = await seated(roomId, "ann", ({ type, track }) => {
    if (type === "track.published" && track) published.resolve(track.id);
  });
  let asked = 0;
  let keyframe = true;
  const sender = await RtcPeer.create({
    ...publisher.where,
    sections: [{ kind: "video", direction: "sendonly" }],
    onRtcp: ({ type }) => {
      if (type !== "pli" && type !== "fir") return;
      asked += 1;
      keyframe = true;
    },
  });
  await sender.connect([{ mid: "0", clientTrackId: "camera", kind: "video", source: "camera" }], []);
  const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  const sending = setInterval(() => {
    source.sendFrame(sender, keyframe);
    keyframe = false;
  }, FRAME_EVERY_MS);
  const trackId = await published.promise;

  const hostile = await seated(roomId, "mallory");
  const ssrcs = new Set<number>();
  const viewer = await RtcPeer.create({
    ...hostile.where,
    sections: Array.from({ length: 8 }, () => ({ kind: "video", direction: "recvonly" }) as const),
    onRtp: ({ ssrc }) => void ssrcs.add(ssrc),
  });
  await viewer.connect([], [{ mid: "0", trackId, layer: "high" }]);

  const startedAt = performance.now();
  const elapsed = () => performance.now() - startedAt;
  const out = new Uint8Array(64);
  for (let round = 0; elapsed() < ATTACK_MS || ssrcs.size < 2; round++) {
    for (const ssrc of ssrcs) viewer.sendRtcp(out, writePli(out, 0, 1, ssrc));
    // Alternates between another section and pausing, because both begin with a keyframe.
    const mid = round % 6 === 5 ? null : String(round % 8);
    if (round % 3 === 2) await hostile.client.request("subscription.update", { tracks: [{ trackId, mid }] });
    await Bun.sleep(ATTACK_EVERY_MS);
  }
  clearInterval(sending);
  const allowed = AT_ONCE + (PER_SECOND * elapsed()) / 1_000 + ANYWAY;
  expect(asked).toBeGreaterThan(1);
  expect(asked).toBeLessThanOrEqual(allowed);
  // The viewer was watching all the time, on more than one section.
  expect(ssrcs.size).toBeGreaterThan(1);
  for (const one of [sender, viewer]) one.close();
  for (const { client } of [publisher, hostile]) await client.leave();
}, 120_000);
