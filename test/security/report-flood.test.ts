// needs: gcc libc6-dev libssl-dev
/** A participant whose reports cost the media worker all that it has, beside a call that must continue. */
import { afterEach, expect, test } from "bun:test";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { Engine } from "../../src/sfu/engine.ts";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { ControlBudget, ControlShare, DATA_SHARE, REPORTS_SHARE } from "../../src/sfu/transport/control-budget.ts";
import { RTCP_TYPE } from "../../src/sfu/wire/rtcp/rtcp.ts";
import { writeUint16, writeUint32 } from "../../src/sfu/wire/rtp/bytes.ts";
import type { WorkerCall } from "../../src/sfu/worker-protocol.ts";
import { fakeClock } from "../harness/clock.ts";
import { nativeLibraryPath } from "../sfu/fast-path/both-paths.ts";
import { ALL, CAMERA } from "../sfu/room-of-peers.ts";

const REPORT_BYTES = 1_400;
const TAG_BYTES = 32;
const STRANGER = 77;
const ADDRESS = "127.0.0.1";
const library = await nativeLibraryPath();

/** One packet of control at `at`: its end. */
type Part = (out: Uint8Array, at: number, ssrc: number, round: number) => number;

function head(out: Uint8Array, at: number, format: number, type: number, end: number): number {
  out[at] = 0x80 | format;
  out[at + 1] = type;
  writeUint16(out, at + 2, (end - at) / 4 - 1);
  return end;
}

const emptyReport: Part = (out, at) => head(out, at, 0, RTCP_TYPE.rr, at + 8);

const fullReport: Part = (out, at, ssrc) => {
  for (let i = 0; i < 31; i++) writeUint32(out, at + 8 + i * 24, ssrc);
  return head(out, at, 31, RTCP_TYPE.rr, at + 8 + 31 * 24);
};

/** A report of 24 bytes that 8,191 packets were lost. */
const allLost: Part = (out, at, _ssrc, round) => {
  writeUint16(out, at + 12, (round * 13) & 0xffff);
  writeUint16(out, at + 14, 8_191);
  writeUint16(out, at + 20, 8_191);
  return head(out, at, 15, RTCP_TYPE.rtpFeedback, at + 24);
};

/** Asks for 5,440 packets. */
const allAgain: Part = (out, at, ssrc, round) => {
  writeUint32(out, at + 8, ssrc);
  for (let i = 0; i < 320; i++) {
    writeUint16(out, at + 12 + i * 4, (round + i * 17) & 0xffff);
    writeUint16(out, at + 14 + i * 4, 0xffff);
  }
  return head(out, at, 1, RTCP_TYPE.rtpFeedback, at + 12 + 320 * 4);
};

const remb: Part = (out, at, _ssrc, round) => {
  out.set([0x52, 0x45, 0x4d, 0x42, 0, 10 << 2], at + 12);
  writeUint16(out, at + 18, round & 0xffff);
  return head(out, at, 15, RTCP_TYPE.payloadFeedback, at + 20);
};

const keyframe: Part = (out, at, ssrc) => {
  writeUint32(out, at + 8, ssrc);
  return head(out, at, 1, RTCP_TYPE.payloadFeedback, at + 12);
};

const pictures: Part = (out, at, ssrc) => {
  for (let i = 0; i < 160; i++) writeUint32(out, at + 12 + i * 8, ssrc);
  return head(out, at, 4, RTCP_TYPE.payloadFeedback, at + 12 + 160 * 8);
};

const cutOff: Part = (out, at, ssrc) => {
  fullReport(out, at, ssrc, 0);
  writeUint16(out, at + 2, 500);
  return at + 100;
};

const SHAPES: [string, Part, typeof STRANGER | null][] = [
  ["receiver reports of nothing", emptyReport, null],
  ["receiver reports of 31 streams that are one", fullReport, null],
  ["receiver reports of streams that nobody sends", fullReport, STRANGER],
  ["feedback on packets that were never sent", allLost, null],
  ["requests for all packets again", allAgain, null],
  ["requests for packets of a stream that nobody sends", allAgain, STRANGER],
  ["estimates", remb, null],
  ["requests for a keyframe", keyframe, null],
  ["requests for many pictures", pictures, null],
  ["reports that are cut off", cutOff, null],
];

const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

async function openCall(usesReceiveLoop: boolean) {
  const path = openNativePath(library);
  cleanup.push(() => path.close());
  const faults: unknown[] = [];
  const engine = await Engine.start(
    { hostname: ADDRESS, port: 0, announce: [ADDRESS], tcp: false, srtpProfiles: ["AEAD_AES_128_GCM"] },
    { emit() {}, onFault: (error) => faults.push(error) },
    { path, usesReceiveLoop },
  );
  cleanup.push(() => engine.close());
  // biome-ignore lint/suspicious/noExplicitAny: what comes back depends on the method.
  const call = async (method: string, request: object): Promise<any> =>
    engine.call({ type: "call", id: 0, method, request } as WorkerCall);
  const ref = { roomId: "room" };
  await call("openRoom", ref);
  const join = async (participantId: string, direction: "sendonly" | "recvonly", onRtp: (ssrc: number) => void) => {
    await call("addParticipant", { ...ref, participantId, identity: participantId, permissions: ALL });
    const node = { negotiate: (request: object) => call("negotiate", request) };
    const sections = [{ kind: "video" as const, direction }];
    const peer = await RtcPeer.create({ node, ...ref, participantId, sections, onRtp: ({ ssrc }) => onRtp(ssrc) });
    cleanup.push(() => peer.close());
    return peer;
  };
  const publisher = await join("publisher", "sendonly", () => {});
  await publisher.connect([CAMERA], []);
  const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  source.sendFrame(publisher, true);
  const tracks = async () => (await call("room", ref)).participants.flatMap((p: { tracks: object[] }) => p.tracks);
  while ((await tracks()).length === 0) await Bun.sleep(5);
  const [{ id: trackId }] = await tracks();
  const came = { honest: 0, hostile: 0 };
  let ssrc = 0;
  const honest = await join("honest", "recvonly", () => void came.honest++);
  await honest.connect([], [{ mid: "0", trackId, layer: "high" }]);
  const hostile = await join("hostile", "recvonly", (its) => {
    ssrc = its;
    came.hostile++;
  });
  await hostile.connect([], [{ mid: "0", trackId, layer: "high" }]);
  const frame = async () => {
    const before = came.honest;
    source.sendFrame(publisher, true);
    while (came.honest === before) await Bun.sleep(1);
  };
  while (came.hostile === 0) await frame();
  /** A report with as many parts as fit. */
  const report = (part: Part, round: number, of = ssrc) => {
    const out = new Uint8Array(REPORT_BYTES * 2 + TAG_BYTES);
    let length = part(out, 0, of, round);
    const bytes = length;
    while (part !== cutOff && length + bytes <= REPORT_BYTES) length = part(out, length, of, round);
    const protectedBytes = hostile.outgoing?.protectRtcp(out, length) ?? 0;
    return Buffer.from(out.subarray(0, protectedBytes));
  };
  const refused = async () => (await call("load", {})).refused as Record<string, number>;
  return { engine, hostile, frame, report, refused, faults };
}

test("the reports of a connection may use a limited share of the thread, which is available again after a while", () => {
  const clock = fakeClock();
  const budget = new ControlBudget(clock.now);
  const readMs = (ms: number) => budget.spend(() => clock.advance(ms));
  // A silent connection saves up no more than one burst.
  clock.advance(3_600_000);
  let reports = 0;
  for (; !budget.isSpent(); reports++) readMs(2);
  expect(reports).toBeLessThanOrEqual(56);
  expect(reports).toBeGreaterThanOrEqual(50);
  clock.advance(1_000);
  for (reports = 0; !budget.isSpent(); reports++) readMs(2);
  expect(reports).toBeLessThanOrEqual(28);
  expect(reports).toBeGreaterThanOrEqual(24);
  // Time in which the machine did not run the process does not count.
  clock.advance(1_000);
  expect(budget.isSpent()).toBe(false);
  readMs(10_000);
  expect(budget.isSpent()).toBe(false);
});

test("data messages get a larger share of the thread than reports, but a smaller burst", () => {
  const clock = fakeClock();
  const budget = new ControlBudget(clock.now, DATA_SHARE);
  clock.advance(3_600_000);
  let readMs = 0;
  for (const endMs = clock.now() + 1_000; clock.now() < endMs; clock.advance(1)) {
    if (budget.isSpent()) continue;
    budget.spend(() => clock.advance(0.5));
    readMs += 0.5;
  }
  expect(readMs).toBeLessThanOrEqual(241);
  expect(readMs).toBeGreaterThanOrEqual(235);
});

test("[17] many hostile connections together leave the thread time for media, and normal reports are still read", () => {
  const clock = fakeClock();
  const all = new ControlShare();
  const budgets = (count: number) =>
    Array.from({ length: count }, () => new ControlBudget(clock.now, REPORTS_SHARE, all));
  const [hostile, honest] = [budgets(60), budgets(40)];
  const taken = { hostile: 0, refused: 0 };
  const began = clock.now();
  for (let tenth = 0; tenth < 100; tenth++) {
    // The reports of a tenth of a second, with the flooding connections first, several times.
    for (let again = 0; again < 5; again++) {
      for (const budget of hostile) {
        if (budget.isSpent()) continue;
        budget.spend(() => clock.advance(2));
        taken.hostile += 2;
      }
    }
    for (const budget of honest) {
      if (budget.isSpent()) taken.refused++;
      else budget.spend(() => clock.advance(0.1));
    }
    clock.set(Math.max(clock.now(), began + (tenth + 1) * 100));
  }
  const seconds = (clock.now() - began) / 1_000;
  // Each may have 50 ms of a second, all of them three seconds. The last report of each is read to its end.
  expect(taken.hostile / seconds).toBeLessThanOrEqual(2 * 250 + hostile.length * 2);
  expect(taken.hostile / seconds).toBeGreaterThan(200);
  expect(taken.refused).toBe(0);
});

test("[17] in a large room, a subscriber with much loss may request more retransmissions than the others", () => {
  const clock = fakeClock();
  const all = new ControlShare();
  const room = Array.from({ length: 600 }, () => new ControlBudget(clock.now, REPORTS_SHARE, all));
  const lossy = new ControlBudget(clock.now, REPORTS_SHARE, all);
  const began = clock.now();
  let refused = 0;
  const report = (budget: ControlBudget, ms: number) => {
    if (budget.isSpent()) refused++;
    else budget.spend(() => clock.advance(ms));
  };
  for (let tenth = 0; tenth < 100; tenth++) {
    for (const budget of room) report(budget, 0.05);
    report(lossy, 0.15);
    clock.set(began + (tenth + 1) * 100);
  }
  expect(refused).toBe(0);
});

test("when reports fill a slice of the event loop, reports are dropped and no media of other participants", async () => {
  const { engine, hostile, frame, report, refused, faults } = await openCall(false);
  for (const [shape, part, of] of SHAPES) {
    const flood = Array.from({ length: 400 }, (_, round) => report(part, round, of ?? undefined));
    for (const datagram of flood) engine.receive(datagram, hostile.port, ADDRESS);
    await frame();
    expect([shape, (await refused()).overloaded]).toEqual([shape, 0]);
  }
  expect((await refused()).controlOverShare).toBeGreaterThan(0);
  expect(faults).toEqual([]);
}, 60_000);

test("in the native receive loop, a flood of reports is dropped too, without using memory", async () => {
  const { hostile, frame, report, refused, faults } = await openCall(true);
  const round = async (at: number) => {
    for (const [, part, of] of SHAPES)
      for (let i = 0; i < 6; i++) hostile.sendRaw(report(part, at * 6 + i, of ?? undefined));
    await frame();
  };
  for (let i = 0; i < 5; i++) await round(i);
  Bun.gc(true);
  const before = process.memoryUsage().arrayBuffers;
  let rounds = 0;
  while (rounds < 30 || !(await refused()).controlOverShare) await round(rounds++);
  Bun.gc(true);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024);
  expect((await refused()).overloaded).toBe(0);
  expect(faults).toEqual([]);
}, 60_000);
