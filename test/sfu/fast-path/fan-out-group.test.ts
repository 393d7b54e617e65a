// A member of a fan-out group gets the same bytes as a subscriber outside of one: with packets that are lost, late or repeated on
// their way to the server, with viewers that join, leave, change layers or change their address, and with retransmissions.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { fanOut } from "../../../src/sfu/fast-path/fan-out.ts";
import { FanOutGroup } from "../../../src/sfu/fast-path/fan-out-group.ts";
import type { FastPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { GroupForwarder } from "../../../src/sfu/fast-path/group-forwarder.ts";
import { GroupNackResponder } from "../../../src/sfu/fast-path/group-nack-responder.ts";
import { SendBatch } from "../../../src/sfu/fast-path/send-batch.ts";
import { createTarget, type FanOutTransport } from "../../../src/sfu/forwarding/fan-out-target.ts";
import { ALL_TEMPORAL, PAUSED } from "../../../src/sfu/forwarding/forwarder.ts";
import type { SourcePacket } from "../../../src/sfu/forwarding/source-packet.ts";
import { type MediaCodec, startsKeyframe } from "../../../src/sfu/wire/codec/keyframe.ts";
import { Vp8Descriptor } from "../../../src/sfu/wire/codec/vp8.ts";
import { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { PacketRing } from "../../../src/sfu/wire/rtp/packet-ring.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { RtxStream } from "../../../src/sfu/wire/rtp/rtx.ts";
import { type SrtpProfile, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { rtpPacket } from "../packets.ts";
import { PATHS } from "./both-paths.ts";

const LAYERS = 2;
const VIEWERS = 5;
/** The temporal layers of frames, each of which has four packets. */
const TEMPORAL = [0, 2, 1, 2];
const PROFILES: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];

class Viewer {
  readonly forwarder: GroupForwarder;
  readonly responder = new GroupNackResponder();
  readonly numbers: SentPackets | null;
  readonly transport: FanOutTransport;
  readonly target;
  readonly repair;
  readonly #rtx: RtxStream | null;
  bytes = 0;
  alone = true;

  constructor(path: FastPath, codec: MediaCodec, i: number) {
    const profile = PROFILES[i % 2] as SrtpProfile;
    const key = { profile, key: new Uint8Array(16).fill(i), salt: new Uint8Array(masterSaltBytes(profile)).fill(i) };
    const srtp = new SrtpSender(key, path.createCipher);
    this.transport = { srtp, address: `10.0.0.${i + 1}`, port: 4_000 + i, deliver: undefined, slots: new Set() };
    this.numbers = i % 2 === 0 ? new SentPackets(65_500) : null;
    // Without RTX the very bytes are repeated, with or without a transport-wide number.
    this.#rtx = i < 2 ? null : new RtxStream(900 + i, 1_000);
    const extensions = new OutgoingExtensions({
      mid: { id: 1, value: `${i}`.repeat(i + 1) },
      absSendTimeId: 4,
      ...(this.numbers ? { transportSequenceId: 5 } : {}),
      passThrough: i % 3 === 0 ? [{ from: 6, to: 7 }] : [],
      twoByte: i === 3,
    });
    this.target = createTarget(this.transport, extensions);
    this.repair = createTarget(this.transport, extensions);
    const firstSequence = 32_767 - i;
    const firstTimestamp = 0xffff0000 + i;
    this.forwarder = new GroupForwarder({
      ssrc: 100 + i,
      clockRate: 90_000,
      codec,
      payloadType: 100 + i,
      firstSequence,
      firstTimestamp,
    });
    this.forwarder.setTarget(0);
  }

  join(group: FanOutGroup, packet: SourcePacket, ring: PacketRing, nowMs: number): boolean {
    const left = (bytes: number, lastOutgoing: number) => {
      this.bytes += bytes;
      this.alone = true;
      this.responder.leftGroup(lastOutgoing);
    };
    const joined = this.forwarder.join(group, packet, this.target, nowMs, { numbers: this.numbers, left });
    if (joined && this.forwarder.slot) this.responder.joinedGroup(this.forwarder.slot, group, ring);
    return joined;
  }

  answer(sequenceNumber: number, view: RtpView, nowMs: number): boolean {
    const { repair, transport, forwarder } = this;
    const rtx = this.#rtx ? { stream: this.#rtx, payloadType: 97 } : undefined;
    if (!rtx && forwarder.slot) transport.srtp.advanceTo(forwarder.ssrc, forwarder.lastOutgoing);
    if (!this.responder.answer(sequenceNumber, nowMs, 10, view, repair, rtx)) return false;
    if (rtx) {
      repair.sentAtMs = nowMs;
      if (this.numbers) repair.transportSequence = this.numbers.next(view.length, nowMs);
    }
    return true;
  }
}

type Step =
  | { do: "send"; layer: number; ahead: number; back: number; kind: "next" | "gap" | "late" | "empty"; key: boolean }
  | { do: "watch"; viewer: number; layer: number; temporal: number }
  | { do: "move"; viewer: number }
  | { do: "nack"; viewer: number; back: number };

/** The number of steps that are sent in one batch. */
const STEPS_TOGETHER = 3;

/** All packets that are sent, by batch; within a batch in the order of addresses. */
function play(path: FastPath, codec: MediaCodec, story: readonly Step[], together: boolean) {
  const sent: string[][] = [];
  let now: string[] = [];
  let shared = 0;
  const batch = new SendBatch((entries) => {
    for (let i = 0; i < entries.length; i += 3)
      now.push(`${entries[i + 2]}|${entries[i + 1]} ${Buffer.from(entries[i] as Uint8Array).toString("hex")}`);
  }, 4);
  const viewers = Array.from({ length: VIEWERS }, (_, i) => new Viewer(path, codec, i));
  const layers = Array.from({ length: LAYERS }, (_, i) => ({
    highest: 65_500 + i,
    ring: new PacketRing(),
    group: new FanOutGroup(),
    seen: new Set<number>(),
  }));
  let nowMs = 1_000;
  const view = new RtpView();
  const vp8 = new Vp8Descriptor();

  const send = (step: Extract<Step, { do: "send" }>): void => {
    const layer = layers[step.layer] as (typeof layers)[number];
    const { group, ring } = layer;
    const extended =
      step.kind === "late" ? layer.highest - step.back : layer.highest + 1 + (step.kind === "gap" ? step.ahead : 0);
    // A repeated packet is refused as a replay before it gets this far.
    if (layer.seen.has(extended)) return;
    layer.seen.add(extended);
    layer.highest = Math.max(layer.highest, extended);
    view.parse(packetOf(codec, extended, step));
    const packet: SourcePacket = { view, layer: step.layer, extended, keyframe: false, vp8 };
    packet.keyframe = startsKeyframe(codec, view, vp8);
    const temporal = TEMPORAL[(extended >> 2) & 3] ?? 0;
    packet.temporal = { layer: temporal, top: 2, entersUpTo: extended & 4 ? temporal : 2 };
    ring.put(extended, view.data.slice(), view.length, nowMs);
    const decision = group.decide(packet);
    if (decision === "forward") {
      shared += group.size;
      path.fanOutToGroup(packet, group, nowMs, batch);
      group.advance(packet, nowMs);
    } else if (decision === "dissolve") group.dissolve();
    for (const viewer of viewers) {
      if (!viewer.alone || !viewer.forwarder.forward(packet, viewer.target, nowMs)) continue;
      if (viewer.numbers) viewer.target.transportSequence = viewer.numbers.next(view.length, nowMs);
      viewer.responder.record(viewer.target, ring, extended);
      viewer.bytes += view.length;
      fanOut(view, [viewer.target], 1, batch);
      if (together) viewer.alone = !viewer.join(group, packet, ring, nowMs);
    }
  };

  for (const [index, step] of story.entries()) {
    nowMs += 7;
    if (step.do === "send") send(step);
    else {
      const viewer = viewers[step.viewer] as Viewer;
      const { forwarder, transport } = viewer;
      const isChange =
        step.do === "watch" && (forwarder.targetLayer !== step.layer || forwarder.targetTemporal !== step.temporal);
      if (step.do === "watch" && isChange) forwarder.setTarget(step.layer, undefined, step.temporal);
      if (step.do === "move") {
        for (const slot of [...transport.slots]) slot.leave();
        transport.port += 1;
      }
      if (step.do === "nack" && viewer.answer((forwarder.lastOutgoing - step.back) & 0xffff, view, nowMs))
        fanOut(view, [viewer.repair], 1, batch);
    }
    // Several packets leave in one batch.
    if (index % STEPS_TOGETHER < STEPS_TOGETHER - 1 && index < story.length - 1) continue;
    batch.flush();
    sent.push(now.sort());
    now = [];
  }
  const totals = viewers.map(({ forwarder, bytes }) => ({
    packets: forwarder.packets,
    octets: forwarder.octets,
    bytes: bytes + forwarder.groupBytes,
    last: forwarder.lastOutgoing,
  }));
  for (const { transport } of viewers) transport.srtp.close();
  return { sent, totals, shared };
}

function packetOf(codec: MediaCodec, extended: number, step: { kind: string; key: boolean; layer: number }) {
  const id = (extended * 3 + step.layer) & 0x7fff;
  const descriptor = [0x90, 0xf0, 0x80 | (id >> 8), id & 0xff, extended & 0xff, 0x20 | (extended & 0x1f)];
  const nalUnit = step.key ? 0x65 : 0x41;
  const body = Uint8Array.from([
    ...(codec === "vp8" ? [...descriptor, step.key ? 0x10 : 0x11] : [nalUnit]),
    ...[0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0, extended & 0xff],
  ]);
  return rtpPacket({
    sequenceNumber: extended & 0xffff,
    timestamp: ((extended >> 2) * 3_000) >>> 0,
    marker: extended % 4 === 3,
    payload: step.kind === "empty" ? 0 : body,
    padding: step.kind === "empty" ? 20 : 0,
    extensions: [
      { id: 6, data: Uint8Array.of(extended & 0x7f) },
      { id: 2, data: Uint8Array.of(1, 2, 3) },
    ],
  });
}

const viewer = fc.nat(VIEWERS - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("send" as const),
      layer: fc.nat(LAYERS - 1),
      ahead: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 1_200 })),
      back: fc.integer({ min: 0, max: 5 }),
      kind: fc.oneof(
        { weight: 9, arbitrary: fc.constant("next" as const) },
        { weight: 3, arbitrary: fc.constantFrom("gap" as const, "late" as const, "late" as const) },
        { weight: 1, arbitrary: fc.constant("empty" as const) },
      ),
      key: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("watch" as const),
      viewer,
      layer: fc.constantFrom(PAUSED, 0, 1),
      temporal: fc.constantFrom(0, 1, ALL_TEMPORAL, ALL_TEMPORAL),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("move" as const), viewer }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("nack" as const), viewer, back: fc.nat(12) }) },
);

describe.each(PATHS)("a fan-out group, %s", (_name, path) => {
  test.each<MediaCodec>(["vp8", "h264", "audio"])(
    "sends each member the bytes that it would get on its own, %s",
    (codec) => {
      let shared = 0;
      fc.assert(
        fc.property(fc.array(step, { minLength: 20, maxLength: 120 }), (story) => {
          const together = play(path, codec, story, true);
          const alone = play(path, codec, story, false);
          expect(together.sent).toEqual(alone.sent);
          expect(together.totals).toEqual(alone.totals);
          shared += together.shared;
        }),
        { numRuns: 60 },
      );
      expect(shared).toBeGreaterThan(1_000);
    },
    60_000,
  );
});

test("native code and TypeScript send a fan-out group the same bytes", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (story) => {
      const [typescript, native] = PATHS.map(([, path]) => play(path, "vp8", story, true));
      expect(native?.sent).toEqual(typescript?.sent ?? []);
    }),
    { numRuns: 60 },
  );
}, 60_000);
