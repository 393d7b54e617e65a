/** packet: CPU time of each step of the packet path, in TypeScript and in native code, for packets of 1,200 and 120 bytes */
import { findNativeLibrary } from "../../src/nodes/native-library.ts";
import { fanOut } from "../../src/sfu/fast-path/fan-out.ts";
import { FanOutGroup } from "../../src/sfu/fast-path/fan-out-group.ts";
import { type FastPath, typescriptPath } from "../../src/sfu/fast-path/fast-path.ts";
import { GroupForwarder } from "../../src/sfu/fast-path/group-forwarder.ts";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { SendBatch } from "../../src/sfu/fast-path/send-batch.ts";
import { createTarget, type FanOutTarget } from "../../src/sfu/forwarding/fan-out-target.ts";
import type { SourcePacket } from "../../src/sfu/forwarding/source-packet.ts";
import { startsKeyframe } from "../../src/sfu/wire/codec/keyframe.ts";
import { Vp8Descriptor } from "../../src/sfu/wire/codec/vp8.ts";
import { TwccRecorder } from "../../src/sfu/wire/rtcp/twcc.ts";
import { RtpView } from "../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions, RtpExtensions } from "../../src/sfu/wire/rtp/rtp-extensions.ts";
import { type SrtpMasterKey, type SrtpProfile, SrtpReceiver, SrtpSender } from "../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../src/sfu/wire/srtp/srtp-cipher.ts";
import { type Measured, median, report } from "./harness/report.ts";

const ROUNDS = 7;
const VIEWERS = 100;
const PROFILES = { AEAD_AES_128_GCM: "GCM", AES_CM_128_HMAC_SHA1_80: "CM" } as const satisfies Record<
  SrtpProfile,
  string
>;
const IDS = { mid: 1, rid: 2, repairedRid: 3, absSendTime: 4, transportSequence: 5, audioLevel: 6 };

const library = await findNativeLibrary("auto", { info() {} });
const paths: FastPath[] = [typescriptPath, ...(library ? [openNativePath(library.path)] : [])];
const figures: Measured[] = [];

/** CPU time, and the median of the rounds: the machine may be busy with other things. */
function measure(what: string, operations: number, round: () => void): void {
  for (let i = 0; i < 3; i++) round();
  const times = Array.from({ length: ROUNDS }, () => {
    const before = process.cpuUsage();
    round();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / operations;
  });
  figures.push({ what, value: median(times), unit: "µs" });
}

function videoPacket(sequenceNumber: number, bytes: number): Uint8Array {
  const packet = new Uint8Array(bytes);
  // Two extension words: MID "1" (1), transport sequence (5), audio level (6); then a VP8 descriptor.
  packet.set([0x90, 0x60, sequenceNumber >> 8, sequenceNumber & 0xff, 0, 0, 0, 1, 1, 2, 3, 4, 0xbe, 0xde, 0, 2]);
  packet.set([0x10, 0x31, 0x51, 0x12, 0x34, 0x60, 0x85, 0, 0x90, 0xe0, 0x80, 0x01, 0x02, 0x00, 0x10], 16);
  return packet;
}

function masterKey(profile: SrtpProfile, viewer: number): SrtpMasterKey {
  return { profile, key: new Uint8Array(16).fill(viewer), salt: new Uint8Array(masterSaltBytes(profile)).fill(viewer) };
}

function measureParsing(packets: readonly Uint8Array[], size: string): void {
  const view = new RtpView();
  const extensions = new RtpExtensions();
  const vp8 = new Vp8Descriptor();
  measure(`${size}: parse header, read extensions, find keyframe`, packets.length * 20, () => {
    for (let k = 0; k < 20; k++) {
      for (const packet of packets) {
        view.parse(packet);
        extensions.read(view, IDS);
        startsKeyframe("vp8", view, vp8);
      }
    }
  });
}

function measureOpening(path: FastPath, profile: SrtpProfile, packets: readonly Uint8Array[], name: string): void {
  const sender = new SrtpSender(masterKey(profile, 1), path.createCipher);
  const buffer = new Uint8Array(2_048);
  const sealed = packets.map((packet) => {
    buffer.set(packet);
    return buffer.slice(0, sender.protectRtp(buffer, 24, packet.length));
  });
  measure(`${name}: unprotect`, packets.length * 5, () => {
    for (let k = 0; k < 5; k++) {
      const receiver = new SrtpReceiver(masterKey(profile, 1), path.createCipher);
      for (const packet of sealed) {
        buffer.set(packet);
        if (receiver.unprotectRtp(buffer, packet.length) < 0) throw new Error("refused");
      }
      receiver.close();
    }
  });
  sender.close();
}

/** All work up to the system call, for viewers outside of a fan-out group and for the same viewers as members of one. */
function measureForwarding(path: FastPath, profile: SrtpProfile, packets: readonly Uint8Array[], name: string): void {
  const group = new FanOutGroup();
  const viewers = Array.from({ length: VIEWERS }, (_, viewer) => {
    const srtp = new SrtpSender(masterKey(profile, viewer), path.createCipher);
    const mid = { id: 1, value: `${viewer}` };
    const extensions = new OutgoingExtensions({ mid, absSendTimeId: 4, transportSequenceId: 5 });
    const transport = { srtp, address: "127.0.0.1", port: 1, deliver: undefined, slots: new Set<never>() };
    const numbers = { codec: "vp8", payloadType: 96, firstSequence: 1_000, firstTimestamp: 0 } as const;
    const forwarder = new GroupForwarder({ ssrc: viewer, clockRate: 90_000, ...numbers });
    forwarder.setTarget(0);
    return { forwarder, target: createTarget(transport, extensions) };
  });
  const targets: FanOutTarget[] = viewers.map(({ target }) => target);
  const batch = new SendBatch(
    () => {},
    undefined,
    () => true,
  );
  const source: SourcePacket = { view: new RtpView(), layer: 0, extended: 0, keyframe: true, vp8: new Vp8Descriptor() };
  const next = (packet: Uint8Array): SourcePacket => {
    source.view.parse(packet);
    source.keyframe = startsKeyframe("vp8", source.view, source.vp8);
    source.extended += 1;
    return source;
  };
  const alone = (packet: SourcePacket) => {
    for (const { forwarder, target } of viewers) forwarder.forward(packet, target, packet.extended);
    fanOut(packet.view, targets, VIEWERS, batch);
  };
  const some = packets.slice(0, 50);
  measure(`${name}: a copy for a slow-path subscriber`, some.length * VIEWERS, () => {
    for (const packet of some) alone(next(packet));
  });
  const holder = { numbers: null, left() {} };
  for (const { forwarder, target } of viewers)
    if (!forwarder.join(group, source, target, source.extended, holder))
      throw new Error("the viewer did not join the group");
  measure(`${name}: a copy for a member of a fan-out group`, some.length * VIEWERS, () => {
    for (const packet of some) {
      path.fanOutToGroup(next(packet), group, source.extended, batch);
      group.advance(source, source.extended);
    }
  });
  for (const { target } of viewers) target.transport.srtp.close();
}

for (const bytes of [1_200, 120]) {
  const packets = Array.from({ length: 1_000 }, (_, i) => videoPacket(1_000 + i, bytes));
  const size = `${bytes} bytes`;
  measureParsing(packets, size);
  for (const [profile, short] of Object.entries(PROFILES) as [SrtpProfile, string][]) {
    for (const path of paths) {
      measureOpening(path, profile, packets, `${size}, ${short}, ${path.name}`);
      measureForwarding(path, profile, packets, `${size}, ${short}, ${path.name}`);
    }
  }
}

const recorder = new TwccRecorder();
const out = new Uint8Array(2_048);
let number = 0;
measure("record an arrival, with a report every 50 packets", 10_000, () => {
  for (let i = 0; i < 10_000; i++) {
    recorder.record(number++ & 0xffff, number);
    if (i % 50 === 0) recorder.writeFeedback(out, 0, 1, 2);
  }
});
report("packet", figures, { native: library !== null });
