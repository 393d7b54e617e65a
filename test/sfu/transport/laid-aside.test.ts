// needs: gcc libc6-dev libssl-dev
/** Reports that come while native code waits at the socket: which of them can wait as well, and which cannot. */
import { afterEach, describe, expect, test } from "bun:test";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { LaneTable } from "../../../src/sfu/forwarding/lanes.ts";
import { SendBatch } from "../../../src/sfu/forwarding/send-batch.ts";
import { loopOf } from "../../../src/sfu/transport/media-watch.ts";
import {
  writeNack,
  writePli,
  writeReceiverReport,
  writeRemb,
  writeSdes,
  writeSenderReport,
} from "../../../src/sfu/wire/rtcp/rtcp-write.ts";
import { TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { addressWords } from "../../../src/sfu/wire/rtp/address.ts";
import { SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import type { SrtpMasterKey } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { nativeLibraryPath } from "../packet-paths.ts";
import { writeBye, writeFir } from "../packets.ts";

const ADDRESS = "127.0.0.1";
/** So long that a test would fail over it. */
const LONG_MS = 600_000;
/** As native.h has it. */
const UNAUTHENTIC = -3;
const library = await nativeLibraryPath();

const PROFILES = [
  { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) },
  { profile: "AES_CM_128_HMAC_SHA1_80", key: new Uint8Array(16), salt: new Uint8Array(14) },
] as const;
const sent = { ssrc: 1, ntpSeconds: 1, ntpFraction: 1, rtpTimestamp: 1, packetCount: 1, octetCount: 1 };
const block = {
  ...{ ssrc: 2, fractionLost: 0, cumulativeLost: 0, highestSequence: 1, jitter: 0 },
  ...{ lastSenderReport: 0, delaySinceLastSenderReport: 0 },
};
type Write = (out: Uint8Array) => number;
const feedback: Write = (out) => {
  const arrivals = new TwccRecorder();
  for (const number of [1, 2, 5]) arrivals.record(number, 1_000 + number);
  return arrivals.writeFeedback(out, 0, 1, 2);
};
const unheardOf: Write = (out) => {
  const end = writePli(out, 0, 1, 2);
  out[1] = 207;
  return end;
};
const reportAndNack: Write = (out) => writeNack(out, writeReceiverReport(out, 0, 1, [block]), 1, 2, [7]);
const named: Write = (out) => writeSdes(out, writeSenderReport(out, 0, sent), 1, "ann");
const plainOf = (write: Write) => {
  const out = new Uint8Array(1_000);
  return out.slice(0, write(out));
};
const TELLING: [string, Write][] = [
  ["a sender report", (out) => writeSenderReport(out, 0, sent, [block])],
  ["a receiver report", (out) => writeReceiverReport(out, 0, 1, [block, block])],
  ["transport-wide feedback", feedback],
  ["REMB", (out) => writeRemb(out, 0, 1, 1_000_000, [2])],
];
const ASKING: [string, Write][] = [
  ["a NACK", (out) => writeNack(out, 0, 1, 2, [7])],
  ["a PLI", (out) => writePli(out, 0, 1, 2)],
  ["a FIR", (out) => writeFir(out, 0, 1, [{ ssrc: 2, sequence: 3 }])],
  ["a BYE", (out) => writeBye(out, 0, [1])],
  ["what nobody knows", unheardOf],
  ["a report with a NACK behind it", reportAndNack],
  ["feedback with a PLI behind it", (out) => writePli(out, feedback(out), 1, 2)],
  ["of a stranger, a report with a name behind it", named],
];

const cleanup: (() => unknown)[] = [];
afterEach(() => {
  for (const close of cleanup.splice(0).reverse()) close();
});

const bind = async () => {
  const socket = await Bun.udpSocket({
    hostname: ADDRESS,
    port: 0,
    binaryType: "buffer",
    socket: { data() {}, error() {} },
  });
  cleanup.push(() => socket.close());
  return socket;
};
type Known = { port: number; master: SrtpMasterKey };
type Terms = { forMs?: number; patienceMs?: number; known?: Known; hasLoop?: boolean };
const watch = (here: Bun.udp.Socket<"buffer">, terms: Terms = {}) => {
  const { forMs = LONG_MS, patienceMs = LONG_MS, known, hasLoop = true } = terms;
  const path = openNativePath(library);
  cleanup.push(() => path.close());
  const { fd } = here as unknown as { fd: number };
  const address = addressWords(ADDRESS) as Uint32Array;
  const sessions = [known].flatMap((one) => {
    const receiver = one && path.createReceiver(one.master).handle;
    return receiver ? [{ receiver, lanes: new LaneTable<object>(), port: one.port, address }] : [];
  });
  const loop = (hasLoop ? loopOf(fd) : null) ?? -1;
  const batch = new SendBatch(() => {});
  path.watch.wait({ socket: { fd, isV6: false }, loop, sessions, batch, nowMs: 1_000, forMs, patienceMs });
  return path.watch;
};

describe.each(PROFILES.map((master) => [master.profile, master] as const))("in %s", (_profile, master) => {
  const protectedBy = new SrtpSender(master);
  const sealed = (write: Write) => {
    const out = new Uint8Array(1_000);
    return out.slice(0, protectedBy.protectRtcp(out, write(out)));
  };
  /** What a watch makes of these, which the loop ends if nothing else does. */
  const watched = async (packets: readonly Uint8Array[], isKnown = false) => {
    const [here, other] = [await bind(), await bind()];
    for (const packet of packets) other.send(packet, here.port, ADDRESS);
    here.send("for the loop", other.port, ADDRESS);
    return watch(here, isKnown ? { known: { port: other.port, master } } : {});
  };

  test.each(TELLING)("%s is laid aside as it came, and the watch goes on", async (_name, write) => {
    const packets = [sealed(write), sealed(write)];
    const found = await watched(packets);
    expect([found.received, found.taken, found.reports, found.runs]).toEqual([2, 2, 2, 0]);
    for (const [i, packet] of packets.entries()) {
      expect(found.reportAt(i)).toBe(i);
      expect(found.report(i).equals(packet)).toBe(true);
      expect(found.reportCameAtMs(i)).toBeGreaterThanOrEqual(1_000);
      expect(found.reportCameAtMs(i)).toBeLessThanOrEqual(found.endedAtMs);
    }
  });

  test.each(ASKING)("%s ends it at once", async (_name, write) => {
    const [report = feedback] = TELLING.map(([, telling]) => telling);
    const packets = [sealed(report), sealed(write), sealed(report)];
    const found = await watched(packets);
    expect([found.taken, found.reports, found.outcome]).toEqual([1, 1, 0]);
    expect(found.datagram(1)).toEqual(packets[1] as Uint8Array<ArrayBuffer>);
  });

  test("a compound of somebody who is known is opened: if all of it only tells, it is laid aside", async () => {
    const forged = sealed(named);
    forged[10] = 1 ^ (forged[10] as number);
    const packets = [sealed(named), forged, sealed(named), sealed(reportAndNack), sealed(named)];
    const found = await watched(packets, true);
    const plain = plainOf(named);
    expect([found.taken, found.reports, found.restSession]).toEqual([3, 3, 0]);
    expect([0, 1, 2].map((report) => found.reportOutcome(report))).toEqual([plain.length, UNAUTHENTIC, plain.length]);
    expect(found.datagram(0).slice(0, plain.length)).toEqual(plain);
    expect(found.datagram(1)).toEqual(forged);
    expect(found.outcome).toBe(plainOf(reportAndNack).length);
    expect(found.datagram(3).slice(0, found.outcome)).toEqual(plainOf(reportAndNack));
  });
});

test("is over when there is no room left for reports", async () => {
  const [here, other] = [await bind(), await bind()];
  const out = new Uint8Array(1_000);
  const report = out.slice(0, new SrtpSender(PROFILES[0]).protectRtcp(out, feedback(out)));
  for (let i = 0; i < 150; i++) other.send(report, here.port, ADDRESS);
  const found = watch(here);
  expect(found.taken).toBe(found.received);
  expect(found.reports).toBe(found.received);
  expect(found.received).toBeGreaterThan(100);
  expect(found.received).toBeLessThanOrEqual(128);
});

test("is over a while after the first report came, although there is time", async () => {
  const [here, other] = [await bind(), await bind()];
  const out = new Uint8Array(1_000);
  other.send(out.slice(0, new SrtpSender(PROFILES[0]).protectRtcp(out, feedback(out))), here.port, ADDRESS);
  const found = watch(here, { forMs: LONG_MS / 10, patienceMs: 50, hasLoop: false });
  expect([found.received, found.reports]).toEqual([1, 1]);
  expect(found.endedAtMs - found.reportCameAtMs(0)).toBeGreaterThan(49);
  expect(found.endedAtMs).toBeLessThan(1_000 + LONG_MS / 10);
});

test("is over with the first report where somebody waits for it", async () => {
  const [here, other] = [await bind(), await bind()];
  const out = new Uint8Array(1_000);
  other.send(out.slice(0, new SrtpSender(PROFILES[0]).protectRtcp(out, feedback(out))), here.port, ADDRESS);
  const found = watch(here, { patienceMs: 0, hasLoop: false });
  expect([found.received, found.reports]).toEqual([1, 1]);
});
