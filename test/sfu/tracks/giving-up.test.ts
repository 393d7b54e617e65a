import { expect, test } from "bun:test";
import type { PublishedLayer } from "../../../src/sfu/tracks/published-layer.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { Stage } from "./stage.ts";

const KEYFRAME = new Uint8Array([0x10, 0x00, 0, 0, 0x9d, 0x01, 0x2a, 0, 0, 0, 0]);
const DELTA = new Uint8Array([0x10, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/** A viewer who has just got a keyframe of the larger of two layers. */
function stage() {
  const stage = new Stage("VP8", ["q", "f"]);
  const [low, high] = stage.publication.layers as [PublishedLayer, PublishedLayer];
  // With its first packet the track has a codec.
  stage.receive(100, 0, DELTA, 0, high);
  const viewer = stage.watch(0);
  viewer.subscription.setLayer(high, "requested", 0);
  let number = 100;
  const receive = (layer: PublishedLayer, payload: Uint8Array) => {
    number += 1;
    const before = viewer.seen.length;
    stage.receive(number, number * 3_000, payload, number, layer);
    return viewer.seen.length > before;
  };
  expect(receive(high, KEYFRAME)).toBe(true);
  return { viewer, low, high, receive };
}

test("a higher layer continues until its successor starts with a keyframe", () => {
  const { viewer, low, high, receive } = stage();
  viewer.subscription.setLayer(low, "bandwidth", 200);
  expect(receive(high, DELTA)).toBe(true);
  expect(receive(low, DELTA)).toBe(false);
  expect(receive(low, KEYFRAME)).toBe(true);
  expect(receive(high, DELTA)).toBe(false);
});

test("a higher layer that the path cannot carry stops at once, and its successor starts with a keyframe", () => {
  const { viewer, low, high, receive } = stage();
  viewer.subscription.stopAbove(low);
  viewer.subscription.setLayer(low, "bandwidth", 200);
  expect(receive(high, DELTA)).toBe(false);
  expect(receive(low, DELTA)).toBe(false);
  expect(receive(low, KEYFRAME)).toBe(true);
  expect(receive(low, DELTA)).toBe(true);
});

test("a current layer is not stopped by a choice that is not lower", () => {
  const { viewer, high, receive } = stage();
  viewer.subscription.stopAbove(high);
  expect(receive(high, DELTA)).toBe(true);
});

test("nothing of a paused video is retransmitted, nor more than the path has capacity for", () => {
  const { viewer, high, receive } = stage();
  expect(receive(high, DELTA)).toBe(true);
  const { section } = viewer.subscription;
  const lost = viewer.seen.map(({ sequenceNumber }) => sequenceNumber);
  const udp = { fanOut() {}, schedule() {} } as unknown as UdpPort;
  const repair = (nowMs: number, take: () => boolean) =>
    section.repair(lost, new SentPackets(), { rttMs: 50, take }, udp, nowMs);
  expect(repair(300, () => false)).toBe(0);
  expect(repair(600, () => true)).toBeGreaterThan(0);
  viewer.subscription.setLayer(null, "bandwidth", 700);
  expect(repair(900, () => true)).toBe(0);
});
