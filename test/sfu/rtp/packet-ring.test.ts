import { describe, expect, test } from "bun:test";
import { PacketRing } from "../../../src/sfu/rtp/packet-ring.ts";
import { RtpView } from "../../../src/sfu/rtp/rtp.ts";
import { rtpPacket } from "../packets.ts";

describe("the ring of a published layer", () => {
  const view = new RtpView();

  test("gives back a packet of the last second, and none older", () => {
    const ring = new PacketRing();
    const packet = rtpPacket({ sequenceNumber: 7 });
    ring.put(7, packet, packet.length, 100);
    expect(ring.read(7, 1_100, view)).toBe(true);
    expect(view.sequenceNumber).toBe(7);
    expect(ring.read(7, 1_101, view)).toBe(false);
    expect(ring.read(8, 100, view)).toBe(false);
  });

  test("grows to hold a second at any rate, and no further than 2,048 packets", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 65_000; i < 66_000; i++) ring.put(i, packet, packet.length, i);
    for (let i = 65_000; i < 66_000; i++) expect(ring.read(i, 66_000, view)).toBe(true);
    expect(ring.capacity).toBe(1_024);
    for (let i = 0; i < 5_000; i++) ring.put(70_000 + i, packet, packet.length, 70_000);
    expect(ring.capacity).toBe(2_048);
    expect(ring.read(74_999, 70_000, view)).toBe(true);
    expect(ring.read(70_000, 70_000, view)).toBe(false);
  });

  test("a slow layer stays small", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 0; i < 10_000; i++) ring.put(i, packet, packet.length, i * 20);
    expect(ring.capacity).toBe(64);
  });

  test("a straggler does not push out a newer packet", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 0; i < 2_048; i++) ring.put(10_000 + i, packet, packet.length, 0);
    ring.put(10_000 - 2_048, packet, packet.length, 0);
    expect(ring.read(10_000, 0, view)).toBe(true);
    expect(ring.read(10_000 - 2_048, 0, view)).toBe(false);
  });

  test("keeps a second and the newest few whatever their age, when packets go on and when they stop", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    const held = (from: number, to: number) => {
      const found = [];
      for (let i = from; i < to; i++) if (ring.peek(i, view)) found.push(i);
      return found;
    };
    for (let i = 0; i < 200; i++) ring.put(i, packet, packet.length, i * 10);
    expect(held(0, 200)[0]).toBe(200 - 101);
    expect(held(0, 200)).toHaveLength(101);
    ring.release(60_000);
    expect(held(0, 200)[0]).toBe(200 - 33);
    // A jump, and then so few that nothing takes the places of those before it.
    for (let i = 0; i < 40; i++) ring.put(100_000 + i, packet, packet.length, 61_000 + i * 100);
    expect(held(0, 200)).toEqual([]);
    expect(held(100_000, 100_040)).toHaveLength(33);
  });
});
