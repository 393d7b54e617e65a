// needs: gcc libc6-dev libssl-dev
// Native code and TypeScript give the same packets, byte for byte, for whatever the forwarder may ask for.

import { afterAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { fanOut, MAX_PACKET_BYTES } from "../../../src/sfu/fast-path/fan-out.ts";
import { type FastPath, typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { SendBatch } from "../../../src/sfu/fast-path/send-batch.ts";
import { createTarget, type FanOutTarget } from "../../../src/sfu/forwarding/fan-out-target.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { type OutgoingExtensionOptions, OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { type SrtpProfile, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { rtpPacket } from "../packets.ts";
import { nativeLibraryPath } from "./both-paths.ts";

const nativePath = openNativePath(await nativeLibraryPath());

type Viewer = {
  profile: SrtpProfile;
  extensions: OutgoingExtensionOptions;
  header: Pick<
    FanOutTarget,
    | "ssrc"
    | "sequenceNumber"
    | "timestamp"
    | "payloadType"
    | "marker"
    | "originalSequenceNumber"
    | "paddingLength"
    | "transportSequence"
    | "sentAtMs"
  >;
  prefix: Uint8Array;
  overTcp: boolean;
  address: string;
  port: number;
};

const uint = (bits: number) => fc.integer({ min: 0, max: 2 ** bits - 1 });
const extensionId = (max: number) => fc.integer({ min: 1, max });

const extensions: fc.Arbitrary<OutgoingExtensionOptions> = fc.integer({ min: 14, max: 255 }).chain((maxId) =>
  fc.record(
    {
      mid: fc.record({ id: extensionId(maxId), value: fc.stringMatching(/^[a-z0-9]{1,20}$/) }),
      absSendTimeId: extensionId(maxId),
      transportSequenceId: extensionId(maxId),
      passThrough: fc.array(fc.record({ from: extensionId(14), to: extensionId(maxId) }), { maxLength: 4 }),
      twoByte: fc.boolean(),
    },
    { requiredKeys: [] },
  ),
);

const viewer: fc.Arbitrary<Viewer> = fc.record({
  profile: fc.constantFrom<SrtpProfile[]>("AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"),
  extensions,
  header: fc.record({
    ssrc: uint(32),
    sequenceNumber: uint(16),
    timestamp: uint(32),
    payloadType: uint(7),
    marker: fc.boolean(),
    originalSequenceNumber: fc.oneof(fc.constant(-1), uint(16)),
    paddingLength: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 255 })),
    transportSequence: uint(16),
    sentAtMs: fc.double({ min: 0, max: 4e12, noNaN: true }),
  }),
  prefix: fc.uint8Array({ maxLength: 8 }),
  overTcp: fc.boolean(),
  address: fc.oneof(fc.ipV4(), fc.ipV6()),
  port: uint(16),
});

const packet = fc
  .record({
    csrcs: uint(4),
    payload: fc.oneof(fc.integer({ min: 0, max: 64 }), fc.integer({ min: 1_000, max: 1_800 })),
    padding: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 255 })),
    extensions: fc.array(fc.record({ id: extensionId(14), data: fc.uint8Array({ minLength: 1, maxLength: 16 }) }), {
      maxLength: 6,
    }),
  })
  .map(rtpPacket);

function targetsOf(
  path: FastPath,
  viewers: readonly Viewer[],
  delivered: (packet: Uint8Array) => void,
): FanOutTarget[] {
  return viewers.map((one, i) => {
    const key = Uint8Array.from({ length: 16 }, (_, k) => i * 31 + k);
    const salt = Uint8Array.from({ length: masterSaltBytes(one.profile) }, (_, k) => i * 17 + k * 3);
    const srtp = new SrtpSender({ profile: one.profile, key, salt }, path.createCipher);
    const deliver = one.overTcp ? (bytes: Uint8Array) => delivered(bytes.slice()) : undefined;
    const target = createTarget(
      { srtp, address: one.address, port: one.port, deliver, slots: new Set() },
      new OutgoingExtensions(one.extensions),
    );
    Object.assign(target, one.header, { prefixLength: one.prefix.length });
    target.prefix.set(one.prefix);
    return target;
  });
}

/** All packets that are sent, in order, with their destinations. */
function sentBy(path: FastPath, packets: readonly Uint8Array[], viewers: readonly Viewer[], capacity = 200): string[] {
  const sent: string[] = [];
  const batch = new SendBatch((entries) => {
    for (let i = 0; i < entries.length; i += 3)
      sent.push(`${Buffer.from(entries[i] as Uint8Array).toString("hex")} ${entries[i + 2]}|${entries[i + 1]}`);
  }, capacity);
  const targets = targetsOf(path, viewers, (bytes) => sent.push(`${Buffer.from(bytes).toString("hex")} delivered`));
  const view = new RtpView();
  for (const data of packets) {
    if (!view.parse(data)) throw new Error("not RTP");
    for (const target of targets) target.prefixLength = Math.min(target.prefixLength, view.payloadLength);
    fanOut(view, targets, targets.length, batch);
    for (const target of targets) target.sequenceNumber = (target.sequenceNumber + 1) & 0xffff;
  }
  batch.flush();
  for (const { transport } of targets) transport.srtp.close();
  return sent;
}

describe("native code and TypeScript", () => {
  afterAll(() => expect(nativePath.liveCiphers()).toBe(0));

  test("give every viewer the same bytes, whatever the header, extensions, prefix, padding and profile", () => {
    let compared = 0;
    fc.assert(
      fc.property(
        fc.array(packet, { minLength: 1, maxLength: 3 }),
        fc.array(viewer, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 8 }),
        (packets, viewers, capacity) => {
          const expected = sentBy(typescriptPath, packets, viewers, capacity);
          expect(sentBy(nativePath, packets, viewers, capacity)).toEqual(expected);
          compared += expected.length;
        },
      ),
      { numRuns: 150 },
    );
    expect(compared).toBeGreaterThan(300);
  }, 60_000);

  const plain = (header: Partial<Viewer["header"]>, profile: SrtpProfile = "AEAD_AES_128_GCM"): Viewer => ({
    profile,
    extensions: { mid: { id: 1, value: "0" }, transportSequenceId: 5 },
    header: {
      ssrc: 7,
      sequenceNumber: 1,
      timestamp: 3,
      payloadType: 96,
      marker: false,
      originalSequenceNumber: -1,
      paddingLength: 0,
      transportSequence: 9,
      sentAtMs: 5,
      ...header,
    },
    prefix: new Uint8Array(0),
    overTcp: false,
    address: "10.0.0.1",
    port: 4_000,
  });

  test.each<SrtpProfile>(["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"])(
    "count the wraps of the sequence number alike, %s",
    (profile) => {
      const packets = Array.from({ length: 300 }, (_, i) => rtpPacket({ sequenceNumber: i, payload: 40 }));
      const wrapping = [plain({ sequenceNumber: 65_400 }, profile)];
      const sent = sentBy(nativePath, packets, wrapping);
      expect(sent).toEqual(sentBy(typescriptPath, packets, wrapping));
      expect(new Set(sent).size).toBe(300);
    },
  );

  test.each([-1, 0, 1])("leave out what is larger than a packet may be (%p bytes)", (over) => {
    const payload = MAX_PACKET_BYTES - 12 + over;
    const sent = sentBy(
      nativePath,
      [rtpPacket({ payload })],
      [plain({ paddingLength: 255, originalSequenceNumber: 8 })],
    );
    expect(sent).toEqual(
      sentBy(typescriptPath, [rtpPacket({ payload })], [plain({ paddingLength: 255, originalSequenceNumber: 8 })]),
    );
    expect(sent).toHaveLength(over > 0 ? 0 : 1);
  });

  test("serve more viewers than a batch holds, some of them over TCP, in the same order", () => {
    const viewers = Array.from({ length: 450 }, (_, i) => ({ ...plain({ ssrc: i }), overTcp: i % 7 === 0, port: i }));
    const sent = sentBy(nativePath, [rtpPacket({ payload: 900 })], viewers);
    expect(sent).toEqual(sentBy(typescriptPath, [rtpPacket({ payload: 900 })], viewers));
    expect(sent).toHaveLength(450);
  });

  test("send nothing under a removed key, nor under the next key with its number", () => {
    const sent: number[] = [];
    const batch = new SendBatch((entries) => sent.push(entries.length / 3));
    const [gone, live] = targetsOf(nativePath, [plain({}), plain({})], () => {}) as [FanOutTarget, FanOutTarget];
    const view = new RtpView();
    view.parse(rtpPacket());
    gone.transport.srtp.close();
    gone.transport.srtp.close();
    // Another key gets its number.
    const heir = new SrtpSender(
      { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) },
      nativePath.createCipher,
    );
    fanOut(view, [gone, live], 2, batch);
    batch.flush();
    expect(sent).toEqual([1]);
    expect(gone.transport.srtp.protectRtp(new Uint8Array(100), 12, 50)).toBe(0);
    live.transport.srtp.close();
    heir.close();
  });
});
