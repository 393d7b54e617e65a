import { describe, expect, test } from "bun:test";
import { fanOut, MAX_PACKET_BYTES } from "../../../src/sfu/fast-path/fan-out.ts";
import type { FastPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { SEND_BATCH_PACKETS, SendBatch, type SendEntries } from "../../../src/sfu/fast-path/send-batch.ts";
import { createTarget, type FanOutTarget, type FanOutTransport } from "../../../src/sfu/forwarding/fan-out-target.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { type ExtensionIds, OutgoingExtensions, RtpExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { type SrtpMasterKey, SrtpReceiver, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { hex, rtpPacket } from "../packets.ts";
import { PATHS } from "./both-paths.ts";

const IDS: ExtensionIds = { mid: 1, rid: 0, repairedRid: 0, absSendTime: 4, transportSequence: 5, audioLevel: 0 };

function keyOf(viewer: number): SrtpMasterKey {
  return { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16).fill(viewer), salt: new Uint8Array(12).fill(viewer) };
}

function viewerOf(path: FastPath, viewer: number, transport: Partial<FanOutTransport> = {}): FanOutTarget {
  const target = createTarget(
    {
      srtp: new SrtpSender(keyOf(viewer), path.createCipher),
      address: `10.0.0.${viewer}`,
      port: 5_000 + viewer,
      deliver: undefined,
      slots: new Set(),
      ...transport,
    },
    new OutgoingExtensions({ mid: { id: 1, value: `${viewer}` }, absSendTimeId: 4, transportSequenceId: 5 }),
  );
  Object.assign(target, {
    ssrc: viewer,
    sequenceNumber: 2_000 + viewer,
    timestamp: 7,
    payloadType: 45,
    sentAtMs: 1_000,
  });
  target.transportSequence = 300 + viewer;
  return target;
}

function collector(capacity?: number) {
  const sent: { data: Uint8Array; port: number; address: string }[] = [];
  const calls: number[] = [];
  const batch = new SendBatch((entries: SendEntries, count) => {
    expect(entries).toHaveLength(count * 3);
    calls.push(count);
    for (let i = 0; i < count; i++) {
      const [data, port, address] = entries.slice(i * 3, i * 3 + 3) as [Uint8Array, number, string];
      sent.push({ data: data.slice(), port, address });
    }
  }, capacity);
  return { sent, calls, batch };
}

const view = (packet: Uint8Array) => {
  const parsed = new RtpView();
  if (!parsed.parse(packet)) throw new Error("not RTP");
  return parsed;
};

describe.each(PATHS)("the last step of a packet, %s", (_name, path) => {
  const viewerTarget = (viewer: number, transport: Partial<FanOutTransport> = {}) => viewerOf(path, viewer, transport);
  const source = rtpPacket({
    sequenceNumber: 9,
    csrcs: 2,
    payload: Uint8Array.of(10, 11, 12, 13, 14),
    padding: 7,
    extensions: [
      { id: 1, data: hex("707562") },
      { id: 5, data: hex("ffff") },
    ],
  });

  test("every viewer gets its own header under its own key at its own address", () => {
    const { sent, batch } = collector();
    const targets = [1, 2, 3].map((viewer) => viewerTarget(viewer));
    const before = source.slice();
    fanOut(view(source), targets, 3, batch);
    expect(sent).toHaveLength(0);
    batch.flush();
    expect(source).toEqual(before);
    expect(sent.map(({ port, address }) => [port, address])).toEqual([
      [5_001, "10.0.0.1"],
      [5_002, "10.0.0.2"],
      [5_003, "10.0.0.3"],
    ]);
    for (const [i, { data }] of sent.entries()) {
      const viewer = i + 1;
      expect(new SrtpReceiver(keyOf(viewer + 1)).unprotectRtp(data.slice())).toBe(-1);
      const length = new SrtpReceiver(keyOf(viewer)).unprotectRtp(data);
      const out = view(data.slice(0, length));
      expect(out).toMatchObject({
        ssrc: viewer,
        sequenceNumber: 2_000 + viewer,
        timestamp: 7,
        payloadType: 45,
        paddingLength: 0,
      });
      expect(out.data.slice(out.payloadOffset)).toEqual(Uint8Array.of(10, 11, 12, 13, 14));
      const extensions = new RtpExtensions();
      extensions.read(out, IDS);
      expect(extensions).toMatchObject({ mid: `${viewer}`, transportSequence: 300 + viewer });
    }
  });

  test("only the first `count` targets are served", () => {
    const { batch } = collector();
    fanOut(view(source), [viewerTarget(1), viewerTarget(2)], 1, batch);
    expect(batch.count).toBe(1);
  });

  test("a prefix replaces the beginning of the payload, RTX puts the original number before it", () => {
    const { sent, batch } = collector();
    const target = viewerTarget(1);
    target.prefix.set([20, 21]);
    target.prefixLength = 2;
    target.originalSequenceNumber = 0xfffe;
    fanOut(view(source), [target], 1, batch);
    batch.flush();
    const { data } = sent[0] as { data: Uint8Array };
    const out = view(data.slice(0, new SrtpReceiver(keyOf(1)).unprotectRtp(data)));
    expect(out.data.slice(out.payloadOffset)).toEqual(Uint8Array.of(0xff, 0xfe, 20, 21, 12, 13, 14));
  });

  test("padding for a probe is marked as such, even without any payload", () => {
    const { sent, batch } = collector();
    const target = viewerTarget(1);
    target.paddingLength = 255;
    fanOut(view(rtpPacket({ payload: 0, padding: 1 })), [target], 1, batch);
    batch.flush();
    const { data } = sent[0] as { data: Uint8Array };
    const out = view(data.slice(0, new SrtpReceiver(keyOf(1)).unprotectRtp(data)));
    expect(out).toMatchObject({ payloadLength: 0, paddingLength: 255 });
  });

  test("a connection over TCP sends its packets itself", () => {
    const { sent, batch } = collector();
    const delivered: Uint8Array[] = [];
    const target = viewerTarget(1, { deliver: (packet) => delivered.push(packet.slice()) });
    fanOut(view(source), [target, viewerTarget(2)], 2, batch);
    batch.flush();
    expect(sent.map(({ address }) => address)).toEqual(["10.0.0.2"]);
    expect(new SrtpReceiver(keyOf(1)).unprotectRtp(delivered[0] as Uint8Array)).toBeGreaterThan(0);
  });

  test("a full batch is sent at once, never more than 200 packets in one call", () => {
    const { sent, calls, batch } = collector();
    const targets = Array.from({ length: 450 }, (_, i) => viewerTarget(i % 200));
    fanOut(view(source), targets, 450, batch);
    batch.flush();
    batch.flush();
    expect(calls).toEqual([SEND_BATCH_PACKETS, SEND_BATCH_PACKETS, 50]);
    expect(sent).toHaveLength(450);
    expect(sent.map(({ port }) => port)).toEqual(targets.map(({ transport }) => transport.port));
  });

  test("a batch continues after a send that threw an error", () => {
    let calls = 0;
    const batch = new SendBatch(() => {
      calls += 1;
      if (calls === 1) throw new Error("no route");
    });
    batch.commit(1, 1, "a");
    expect(() => batch.flush()).toThrow("no route");
    batch.commit(1, 1, "a");
    batch.flush();
    expect(calls).toBe(2);
  });

  test("a header that grows beyond a slot in the form a viewer needs is left out", () => {
    const { batch } = collector();
    const packet = rtpPacket({ extensions: Array.from({ length: 780 }, () => ({ id: 3, data: hex("00") })) });
    const target = viewerTarget(1);
    const passing = { passThrough: [{ from: 3, to: 200 }] };
    fanOut(view(packet), [{ ...target, extensions: new OutgoingExtensions(passing) }, target], 2, batch);
    expect(batch.count).toBe(1);
  });

  test("an oversized packet is left out rather than written over its neighbour", () => {
    const { batch } = collector();
    fanOut(view(rtpPacket({ payload: MAX_PACKET_BYTES - 11 })), [viewerTarget(1)], 1, batch);
    expect(batch.count).toBe(0);
    fanOut(view(rtpPacket({ payload: MAX_PACKET_BYTES - 12 })), [viewerTarget(1)], 1, batch);
    expect(batch.count).toBe(1);
  });
});
