import { describe, expect, test } from "bun:test";
import { PacketRing } from "../../../../src/sfu/wire/rtp/packet-ring.ts";
import { RtpView } from "../../../../src/sfu/wire/rtp/rtp.ts";
import { rtpPacket } from "../../packets.ts";

describe("the ring of a published layer", () => {
  const view = new RtpView();

  test("returns packets of the last second and none older", () => {
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

  test("a late packet does not replace a newer one", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 0; i < 2_048; i++) ring.put(10_000 + i, packet, packet.length, 0);
    ring.put(10_000 - 2_048, packet, packet.length, 0);
    expect(ring.read(10_000, 0, view)).toBe(true);
    expect(ring.read(10_000 - 2_048, 0, view)).toBe(false);
  });

  test("keeps one second and the newest packets, while packets arrive and after they stop", () => {
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

  test("copies packets whose memory is reused", () => {
    const ring = new PacketRing();
    const memory = Buffer.alloc(4_000);
    const put = (sequenceNumber: number, payloadBytes: number, nowMs: number) => {
      const packet = rtpPacket({ sequenceNumber, payload: new Uint8Array(payloadBytes).fill(sequenceNumber) });
      memory.fill(0xff).set(packet, 100);
      ring.put(sequenceNumber, memory, packet.length, nowMs, 100);
    };
    const isWhole = (sequenceNumber: number, nowMs: number) =>
      ring.read(sequenceNumber, nowMs, view) &&
      view.sequenceNumber === sequenceNumber &&
      view.data
        .subarray(view.payloadOffset, view.payloadOffset + view.payloadLength)
        .every((byte) => byte === sequenceNumber);
    const lengthOf = (number: number) => 200 + ((number * 37) % 1_000);
    // Three seconds: memory of the first is used for those of the second and the third.
    for (let i = 1; i <= 240; i++) {
      put(i, lengthOf(i), i * 12);
      for (let held = Math.max(1, i - 83); held <= i; held++) expect(isWhole(held, i * 12)).toBe(true);
      expect(view.payloadLength).toBe(lengthOf(i));
    }
  });

  test("keeps no reference to a datagram, which would survive until a full collection", () => {
    const ring = new PacketRing();
    const datagram = rtpPacket({ sequenceNumber: 7, payload: new Uint8Array(500).fill(7) });
    ring.put(7, datagram, datagram.length, 0);
    expect(ring.read(7, 0, view)).toBe(true);
    expect(view.data.buffer).not.toBe(datagram.buffer);
    expect(Buffer.compare(view.data.subarray(0, view.length), datagram)).toBe(0);
  });

  test("a packet's memory is reused only when the packet is too old to be sent", () => {
    const ring = new PacketRing();
    const packet = Buffer.from(rtpPacket());
    const seen = new Set<Uint8Array>();
    const dataOf = (number: number) => {
      ring.peek(number, view);
      return view.data;
    };
    for (let i = 0; i < 100; i++) {
      ring.put(i, packet, packet.length, i * 10);
      seen.add(dataOf(i));
    }
    expect(seen.size).toBe(100);
    for (let i = 100; i < 1_000; i++) {
      ring.put(i, packet, packet.length, i * 10);
      seen.add(dataOf(i));
    }
    expect(seen.size).toBeLessThan(110);
  });
});
