// needs: gcc libc6-dev libssl-dev
// Native code opens and refuses the very packets that TypeScript does, whatever is lost, late, repeated, forged or cut off.

import { afterAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { type SrtpProfile, SrtpReceiver, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { rtpPacket } from "../packets.ts";
import { nativeLibraryPath } from "./both-paths.ts";

const PROFILES: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];
const native = openNativePath(await nativeLibraryPath());
afterAll(() => native.close());

type Step = {
  control: boolean;
  stream: number;
  /** How far the sequence number moves: mostly forward, sometimes back, seldom far. */
  move: number;
  change: { at: number; bits: number } | null;
  cut: number;
  payload: number;
};

const step: fc.Arbitrary<Step> = fc.record({
  control: fc.boolean(),
  stream: fc.integer({ min: 0, max: 2 }),
  move: fc.oneof(
    { weight: 6, arbitrary: fc.constant(1) },
    { weight: 3, arbitrary: fc.integer({ min: -1_100, max: 1_100 }) },
    { weight: 1, arbitrary: fc.integer({ min: 20_000, max: 40_000 }) },
  ),
  change: fc.option(fc.record({ at: fc.nat(), bits: fc.integer({ min: 1, max: 255 }) }), { freq: 6 }),
  cut: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 60 }) }),
  payload: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1_000, max: 1_400 })),
});

/** The packets as they leave their sender. */
function packets(profile: SrtpProfile, story: readonly Step[]): { control: boolean; data: Uint8Array }[] {
  const sender = new SrtpSender(keyOf(profile));
  const numbers = [65_000, 10, 32_000];
  return story.map(({ control, stream, move, change, cut, payload }) => {
    if (!control) numbers[stream] = ((numbers[stream] ?? 0) + move) & 0xffff;
    const plain = control
      ? Uint8Array.of(0x80, 200, 0, 1, 0, 0, 0, stream, ...new Uint8Array(payload & ~3))
      : rtpPacket({
          ssrc: 0x80000000 + stream,
          sequenceNumber: numbers[stream] ?? 0,
          payload,
        });
    const out = new Uint8Array(plain.length + 40);
    out.set(plain);
    const headerLength = plain.length - (control ? 0 : payload);
    const length = control ? sender.protectRtcp(out, plain.length) : sender.protectRtp(out, headerLength, plain.length);
    const data = out.slice(0, Math.max(0, length - cut));
    if (change && data.length > 0) data[change.at % data.length] = (data[change.at % data.length] ?? 0) ^ change.bits;
    return { control, data };
  });
}

function keyOf(profile: SrtpProfile) {
  return { profile, key: new Uint8Array(16).fill(7), salt: new Uint8Array(masterSaltBytes(profile)).fill(9) };
}

describe.each(PROFILES)("a native receiver, %s", (profile) => {
  test("opens what TypeScript opens, and refuses the rest for the same reasons", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (story) => {
        const ours = native.createReceiver(keyOf(profile));
        const theirs = new SrtpReceiver(keyOf(profile));
        const sent = packets(profile, story);
        // Every third comes twice.
        for (const { control, data } of sent.flatMap((packet, i) => (i % 3 === 0 ? [packet, packet] : [packet]))) {
          const opened = [ours, theirs].map((receiver) => {
            const copy = data.slice();
            const length = control ? receiver.unprotectRtcp(copy) : receiver.unprotectRtp(copy);
            return { length, bytes: Buffer.from(copy.subarray(0, Math.max(0, length))).toString("hex") };
          });
          expect(opened[0]).toEqual(opened[1] as (typeof opened)[number]);
        }
        expect(ours.refusals).toEqual(theirs.refusals);
        ours.close();
        theirs.close();
      }),
      { numRuns: 150 },
    );
  });

  test("holds no more streams than it may, and nothing once it is closed", () => {
    const before = native.liveCiphers();
    const receiver = native.createReceiver(keyOf(profile));
    const sender = new SrtpSender(keyOf(profile));
    for (let ssrc = 1; ssrc <= 600; ssrc++) {
      const packet = rtpPacket({ ssrc, payload: 10 });
      const out = new Uint8Array(packet.length + 40);
      out.set(packet);
      receiver.unprotectRtp(out, sender.protectRtp(out, packet.length - 10, packet.length));
    }
    expect(receiver.refusals).toEqual({ malformed: 0, replayed: 0, unauthentic: 0, tooManyStreams: 88 });
    receiver.close();
    expect(native.liveCiphers()).toBe(before);
    expect(receiver.unprotectRtp(rtpPacket({ payload: 40 }))).toBe(-1);
  });
});
