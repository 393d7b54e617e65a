// CPU-µs per operation of the packet path, on packets of 1,200 bytes (video) and 120 bytes (audio): bun test/bench/packet.ts

import { startsKeyframe } from "../../src/sfu/packet/codec/keyframe.ts";
import { Vp8Descriptor } from "../../src/sfu/packet/codec/vp8.ts";
import { createTarget, type FanOutTarget, fanOut } from "../../src/sfu/packet/fan-out.ts";
import { Forwarder } from "../../src/sfu/packet/forwarder.ts";
import { RtpView } from "../../src/sfu/packet/rtp.ts";
import { OutgoingExtensions, RtpExtensions } from "../../src/sfu/packet/rtp-extensions.ts";
import { SendBatch } from "../../src/sfu/packet/send-batch.ts";
import { type SrtpMasterKey, type SrtpProfile, SrtpReceiver, SrtpSender } from "../../src/sfu/packet/srtp.ts";
import { masterSaltBytes } from "../../src/sfu/packet/srtp-keys.ts";
import { TwccRecorder } from "../../src/sfu/packet/twcc.ts";

const ROUNDS = 7;

/** CPU time, and the median of the rounds: the machine may be busy with other things. */
function measure(name: string, operations: number, round: () => void): void {
  for (let i = 0; i < 3; i++) round();
  const times: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const before = process.cpuUsage();
    round();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / operations);
  }
  times.sort((a, b) => a - b);
  console.log(`${name.padEnd(58)} ${(times[ROUNDS >> 1] ?? 0).toFixed(2).padStart(7)} µs`);
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

const view = new RtpView();
const extensions = new RtpExtensions();
const vp8 = new Vp8Descriptor();
const ids = { mid: 1, rid: 2, repairedRid: 3, absSendTime: 4, transportSequence: 5, audioLevel: 6 };

function outgoing(viewer: number): OutgoingExtensions {
  return new OutgoingExtensions({ mid: { id: 1, value: `${viewer}` }, absSendTimeId: 4, transportSequenceId: 5 });
}

for (const bytes of [1_200, 120]) {
  const packets = Array.from({ length: 1_000 }, (_, i) => videoPacket(1_000 + i, bytes));
  console.log(`\n${bytes} bytes`);
  measure("parse header", packets.length * 20, () => {
    for (let k = 0; k < 20; k++) for (const packet of packets) view.parse(packet);
  });
  measure("parse header, read extensions, find keyframe", packets.length * 20, () => {
    for (let k = 0; k < 20; k++) {
      for (const packet of packets) {
        view.parse(packet);
        extensions.read(view, ids);
        startsKeyframe("vp8", view, vp8);
      }
    }
  });
  for (const profile of ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"] as const) {
    const sender = new SrtpSender(masterKey(profile, 1));
    const buffer = new Uint8Array(2_048);
    const sealed = packets.map((packet) => {
      buffer.set(packet);
      return buffer.slice(0, sender.protectRtp(buffer, 24, packet.length));
    });
    measure(`unprotect, ${profile}`, packets.length * 5, () => {
      for (let k = 0; k < 5; k++) {
        const receiver = new SrtpReceiver(masterKey(profile, 1));
        for (const packet of sealed) {
          buffer.set(packet);
          if (receiver.unprotectRtp(buffer, packet.length) < 0) throw new Error("refused");
        }
      }
    });
    measure(`protect, ${profile}`, packets.length * 5, () => {
      for (let k = 0; k < 5; k++) {
        for (const packet of packets) {
          buffer.set(packet);
          sender.protectRtp(buffer, 24, packet.length);
        }
      }
    });
    const viewers = 100;
    const targets: FanOutTarget[] = [];
    const forwarders: Forwarder[] = [];
    for (let viewer = 0; viewer < viewers; viewer++) {
      const srtp = new SrtpSender(masterKey(profile, viewer));
      targets.push(
        createTarget({ srtp, address: "127.0.0.1", port: 1, deliver: undefined, seated: new Set() }, outgoing(viewer)),
      );
      forwarders.push(
        new Forwarder({
          ssrc: viewer,
          clockRate: 90_000,
          codec: "vp8",
          payloadType: 96,
          firstSequence: 1_000,
          firstTimestamp: 0,
        }),
      );
    }
    for (const forwarder of forwarders) forwarder.setTarget(0);
    const batch = new SendBatch(() => {});
    let extended = 0;
    measure(`forward, fan out to ${viewers}, ${profile}, per viewer`, 50 * viewers, () => {
      for (const packet of packets.slice(0, 50)) {
        view.parse(packet);
        const keyframe = startsKeyframe("vp8", view, vp8);
        extended += 1;
        const source = { view, layer: 0, extended, keyframe, vp8 };
        for (const [i, forwarder] of forwarders.entries())
          forwarder.forward(source, targets[i] as FanOutTarget, extended);
        fanOut(view, targets, viewers, batch);
      }
      batch.flush();
    });
    if (profile === "AEAD_AES_128_GCM") {
      measure(`decide and rewrite only, ${viewers} viewers, per viewer`, 200 * viewers, () => {
        for (const packet of packets.slice(0, 200)) {
          view.parse(packet);
          const keyframe = startsKeyframe("vp8", view, vp8);
          extended += 1;
          const source = { view, layer: 0, extended, keyframe, vp8 };
          for (let i = 0; i < viewers; i++) {
            (forwarders[i] as Forwarder).forward(source, targets[i] as FanOutTarget, extended);
          }
        }
      });
    }
  }
}

console.log("\nfeedback");
const recorder = new TwccRecorder();
const out = new Uint8Array(2_048);
let number = 0;
measure("record arrival, report every 50 packets, per packet", 10_000, () => {
  for (let i = 0; i < 10_000; i++) {
    recorder.record(number++ & 0xffff, number);
    if (i % 50 === 0) recorder.writeFeedback(out, 0, 1, 2);
  }
});
