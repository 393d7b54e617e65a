import { expect, test } from "bun:test";
import type { FlightDump } from "../../../src/protocol/media/flight.ts";
import { FlightRecorder } from "../../../src/sfu/flight/flight-recorder.ts";
import { replayFlight } from "../../../src/sfu/flight/replay.ts";
import { writeReceiverReport } from "../../../src/sfu/wire/rtcp/rtcp-write.ts";
import { TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";

const CAMERA = { ssrc: 7, kind: "video", codec: "VP8", clockRate: 90_000, rid: null };
const packet = (sequenceNumber: number) => ({
  ssrc: 7,
  sequenceNumber: sequenceNumber & 0xffff,
  timestamp: sequenceNumber * 3_000,
  length: 900,
  marker: true,
});

test("[17] the recorder keeps the newest packets and forgets the others", () => {
  const flight = new FlightRecorder();
  for (let n = 0; n < 5_000; n++) flight.received(packet(n), n % 10 === 0, 1_000 + n);
  const { received, sinceMs, lastedMs } = flight.dump([CAMERA], [], 6_000);
  expect(received).toHaveLength(1_024);
  expect(received[0]?.slice(1, 5)).toEqual([7, 5_000 - 1_024, ((5_000 - 1_024) * 3_000) >>> 0, 900]);
  expect(received.at(-1)).toEqual([1_023, 7, 4_999, 4_999 * 3_000, 900, 1, 0]);
  expect([sinceMs, lastedMs]).toEqual([1_000 + 5_000 - 1_024, 1_024]);
});

test("[17] reports are kept without SDES, up to a limit", () => {
  const flight = new FlightRecorder();
  const report = new Uint8Array(64);
  const length = writeReceiverReport(report, 0, 1, []);
  const name = Buffer.from("somebody@home");
  const sdes = Buffer.concat([
    Buffer.from([0x81, 202, 0, 5]),
    Buffer.alloc(4),
    Buffer.from([1, name.length]),
    name,
    Buffer.alloc(1),
  ]);
  const compound = Buffer.concat([report.subarray(0, length), sdes]);
  for (let n = 0; n < 5_000; n++) flight.reported(compound, compound.length, n);
  const dump = flight.dump([], [], 5_000);
  expect(dump.rtcp.length).toBeGreaterThan(200);
  expect(JSON.stringify(dump).length).toBeLessThan(64_000);
  const kept = dump.rtcp.map(({ packet: bytes }) => Buffer.from(bytes, "base64"));
  expect(kept.every((one) => one.length === length && !one.includes("somebody"))).toBe(true);
});

test("[17] a replay requests and gives up the same packets as the connection did", () => {
  const flight = new FlightRecorder();
  for (let n = 0; n < 300; n++) {
    if (n === 50 || n === 51) continue;
    flight.received(packet(n), false, 1_000 + n * 10);
    // The first of the two comes again; the second never does.
    if (n === 60) flight.received(packet(50), true, 1_000 + n * 10);
  }
  const { decisions, streams } = replayFlight(flight.dump([CAMERA], [], 4_000));
  expect(streams).toMatchObject([{ name: "video VP8", packets: 299, lost: 1, recovered: 1, givenUp: 1 }]);
  const decided = decisions.map((one) => one.decided);
  expect(decided[0]).toBe("asked again for 2: 50 to 51");
  expect(decided.at(-1)).toBe("gave up on 1, and asked for a keyframe");
  expect(decisions.every(({ why, about }) => why !== "" && about === "video VP8")).toBe(true);
});

test("[17] a replay lowers the estimate where delay grows, and lists the decision", () => {
  const sent = new SentPackets();
  const client = new TwccRecorder();
  const flight = new FlightRecorder();
  const out = new Uint8Array(2_000);
  let waits = 0;
  flight.state({ ...UNKNOWN, estimateBps: 2_000_000 }, 1_000);
  for (let n = 0; n < 1_500; n++) {
    const nowMs = 1_000 + n * 5;
    const sequence = sent.next(1_200, nowMs);
    // From the third second on the link takes twice as long for each packet as they come.
    if (n > 600) waits += 5;
    client.record(sequence, nowMs + 20 + waits);
    if (n % 10 !== 9) continue;
    while (client.pending) {
      const end = client.writeFeedback(out, 0, 1, 2);
      if (end > 0) flight.reported(out, end, nowMs + 30 + waits);
    }
  }
  const dump = flight.dump([], sent.history(20_000), 20_000);
  const { decisions, estimates } = replayFlight(dump);
  const lowered = decisions.filter(({ decided }) => decided.startsWith("lowered"));
  expect(lowered.length).toBeGreaterThan(0);
  expect(lowered[0]?.why).toMatch(/wait on the way/);
  expect(Math.min(...estimates.map(({ bps }) => bps))).toBeLessThan(1_500_000);
});

test("[17] sent packets are listed with their probe after they were acknowledged", () => {
  const sent = new SentPackets(65_530);
  const client = new TwccRecorder();
  const out = new Uint8Array(2_000);
  for (let n = 0; n < 20; n++) client.record(sent.next(100 + n, n, n === 5 ? 9 : 0), n + 10);
  const before = sent.history(30);
  const feedback = new TransportFeedback();
  let matched = 0;
  while (client.pending) {
    const end = client.writeFeedback(out, 0, 1, 2);
    if (end > 0 && feedback.parse(out.subarray(0, end))) matched += sent.match(feedback, 30).count;
  }
  expect(matched).toBe(20);
  expect(sent.history(30)).toEqual(before);
  expect(before[5]).toEqual([5, 65_535, 105, 9]);
  expect(before[6]).toEqual([6, 0, 106, 0]);
});

const UNKNOWN = {
  estimateBps: null,
  queueMs: null,
  rttMs: null,
  uplinkLossPercent: null,
  downlinkLossPercent: null,
  jitterMs: null,
};

test("[17] an empty dump has no decisions", () => {
  const dump: FlightDump = new FlightRecorder().dump([], [], 1_000);
  expect(replayFlight(dump)).toEqual({ decisions: [], streams: [], estimates: [] });
});
