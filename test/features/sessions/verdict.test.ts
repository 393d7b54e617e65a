import { expect, test } from "bun:test";
import { type Evidence, verdictOf } from "../../../src/features/sessions/calls/verdict.ts";
import { VERDICT_CAUSES } from "../../../src/protocol/enums.ts";
import type { VerdictCause } from "../../../src/protocol/room-records.ts";

const HEALTHY: Evidence = {
  qualityMs: { excellent: 600_000, good: 5_000, poor: 0, lost: 0 },
  uplinkLossPercent: 0.2,
  downlinkLossPercent: 0.4,
  rttMs: 40,
  uplinkWaitMs: 5,
  waitWhileLosingMs: null,
  jitterMs: 4,
  leastDownlinkBps: 2_500_000,
  heldBackSeconds: 0,
  transport: "udp",
  reconnects: 1,
  stalls: 0,
  stalledMs: 0,
  missingKeysOf: [],
  missingKeySeconds: 0,
  limitedByCpuSeconds: 0,
  limitedByBandwidthSeconds: 2,
  deviceErrors: [],
  serverCpuPercent: 35,
  serverBusySeconds: 0,
  serverLinkLossPercent: 0.1,
  serverLinkRttMs: 90,
  leastServerLinkBps: null,
  serverLinkNarrowSeconds: 0,
};

/** One fault each, on top of a healthy call. */
const FAULTS: Record<Exclude<VerdictCause, "none">, Partial<Evidence>> = {
  uplink_loss: { uplinkLossPercent: 8 },
  uplink_narrow: { limitedByBandwidthSeconds: 40 },
  downlink_loss: { downlinkLossPercent: 9 },
  downlink_narrow: { leastDownlinkBps: 120_000, heldBackSeconds: 40 },
  high_rtt: { rttMs: 620 },
  relayed: { rttMs: 500, transport: "relay" },
  missing_key: { missingKeysOf: ["ada"], missingKeySeconds: 12 },
  publisher_cpu: { limitedByCpuSeconds: 30 },
  device: { deviceErrors: ["NotReadableError"] },
  reconnects: { reconnects: 4 },
  media_stalled: { stalls: 2, stalledMs: 12_000 },
  server_link: { serverLinkLossPercent: 6, downlinkLossPercent: 4 },
  server_overload: { serverCpuPercent: 98, serverBusySeconds: 200, downlinkLossPercent: 12 },
};

test("[17] a busy server that loses nothing is no cause, nor is an encoder that is limited for moments", () => {
  expect(verdictOf({ ...HEALTHY, serverCpuPercent: 99, serverBusySeconds: 600 }).cause).toBe("none");
  const hour = { excellent: 3_600_000, good: 0, poor: 0, lost: 0 };
  expect(verdictOf({ ...HEALTHY, qualityMs: hour, limitedByCpuSeconds: 20 }).cause).toBe("none");
});

test("[17] a link that is always bad is not explained by a server that was busy for a moment", () => {
  const bad = { ...HEALTHY, uplinkLossPercent: 9, serverCpuPercent: 97 };
  expect(verdictOf({ ...bad, serverBusySeconds: 20 }).cause).toBe("uplink_loss");
  expect(verdictOf({ ...bad, serverBusySeconds: 300 }).cause).toBe("server_overload");
});

test("[17] a healthy call and a call without measurements have no cause", () => {
  expect(verdictOf(HEALTHY)).toMatchObject({ quality: "excellent", cause: "none", evidence: {} });
  const unknown: Evidence = {
    ...HEALTHY,
    qualityMs: { excellent: 0, good: 0, poor: 0, lost: 0 },
    uplinkLossPercent: null,
    downlinkLossPercent: null,
    rttMs: null,
    uplinkWaitMs: null,
    waitWhileLosingMs: null,
    jitterMs: null,
    leastDownlinkBps: null,
    transport: null,
    serverCpuPercent: null,
  };
  expect(verdictOf(unknown)).toMatchObject({ quality: "excellent", cause: "none" });
});

test("[17] every cause can be found", () => {
  expect(["none", ...Object.keys(FAULTS)].sort()).toEqual([...VERDICT_CAUSES].sort());
});

for (const [cause, fault] of Object.entries(FAULTS)) {
  test(`[17] ${cause} is found by its evidence and explained in one sentence`, () => {
    const verdict = verdictOf({ ...HEALTHY, ...fault });
    expect(verdict.cause).toBe(cause as VerdictCause);
    expect(verdict.sentence).toMatch(/^[A-Z0-9].*\.$/);
    expect(Object.keys(verdict.evidence).length).toBeGreaterThan(0);
    for (const [name, value] of Object.entries(verdict.evidence)) {
      expect({ ...HEALTHY, ...fault }[name as keyof Evidence]).toEqual(value as never);
    }
  });
}

test("[17] the worse direction is the cause, and a cause that explains others comes first", () => {
  expect(verdictOf({ ...HEALTHY, uplinkLossPercent: 5, downlinkLossPercent: 20 }).cause).toBe("downlink_loss");
  expect(verdictOf({ ...HEALTHY, uplinkLossPercent: 20, downlinkLossPercent: 5 }).cause).toBe("uplink_loss");
  // The same loss and the same encoder: only a full line lets packets wait.
  const held = { uplinkLossPercent: 12, limitedByBandwidthSeconds: 30 };
  expect(verdictOf({ ...HEALTHY, ...held, rttMs: 40 }).cause).toBe("uplink_loss");
  expect(verdictOf({ ...HEALTHY, ...held, rttMs: 520, uplinkWaitMs: 470 }).cause).toBe("uplink_narrow");
  // A media node of an older version does not tell how long packets wait.
  expect(verdictOf({ ...HEALTHY, ...held, rttMs: 520, uplinkWaitMs: null }).cause).toBe("uplink_narrow");
  const stalledByLoss = { uplinkLossPercent: 40, stalls: 3, stalledMs: 20_000 };
  expect(verdictOf({ ...HEALTHY, ...stalledByLoss }).cause).toBe("uplink_loss");
});

test("[17] queueing in the upload means a full link, even if the encoder does not notice; a long round trip does not", () => {
  expect(verdictOf({ ...HEALTHY, rttMs: 600, uplinkWaitMs: 560 }).cause).toBe("uplink_narrow");
  expect(verdictOf({ ...HEALTHY, rttMs: 760, uplinkWaitMs: 720, uplinkLossPercent: 4 }).cause).toBe("uplink_narrow");
  expect(verdictOf({ ...HEALTHY, rttMs: 900, uplinkWaitMs: 210 }).cause).toBe("high_rtt");
  // The link was good for most of the time; what counts is its state while packets were lost.
  const losing = { ...HEALTHY, uplinkLossPercent: 5, uplinkWaitMs: 20 };
  expect(verdictOf({ ...losing, waitWhileLosingMs: 700 })).toMatchObject({
    cause: "uplink_narrow",
    sentence: expect.stringContaining("5 % of the packets were lost, and the others were queued for 700 ms"),
  });
  expect(verdictOf({ ...losing, waitWhileLosingMs: 30 }).cause).toBe("uplink_loss");
  const narrow = { leastDownlinkBps: 120_000, heldBackSeconds: 40, rttMs: 500, uplinkWaitMs: 460 };
  expect(verdictOf({ ...HEALTHY, ...narrow }).cause).toBe("downlink_narrow");
});

test("[17] an audio call has a low bandwidth estimate without a cause", () => {
  expect(verdictOf({ ...HEALTHY, leastDownlinkBps: 64_000 }).cause).toBe("none");
  // A server that keeps its queue short keeps the line excellent, and the video small.
  expect(verdictOf({ ...HEALTHY, leastDownlinkBps: 64_000, heldBackSeconds: 60 }).cause).toBe("downlink_narrow");
  // A machine that stood still for a moment makes the round trip long, and the estimate small.
  const shaken = { leastDownlinkBps: 64_000, qualityMs: { excellent: 20_000, good: 10_000, poor: 10_000, lost: 0 } };
  expect(verdictOf({ ...HEALTHY, ...shaken, heldBackSeconds: 5 }).cause).toBe("none");
  expect(verdictOf({ ...HEALTHY, leastDownlinkBps: 900_000, heldBackSeconds: 60 }).cause).toBe("none");
});

test("[17] a relay alone is no cause, and a short bad moment is not the call's quality", () => {
  expect(verdictOf({ ...HEALTHY, transport: "relay" }).cause).toBe("none");
  const moment = { excellent: 95_000, good: 0, poor: 0, lost: 5_000 };
  expect(verdictOf({ ...HEALTHY, qualityMs: moment }).quality).toBe("excellent");
  const tenth = { excellent: 85_000, good: 0, poor: 15_000, lost: 0 };
  expect(verdictOf({ ...HEALTHY, qualityMs: tenth }).quality).toBe("poor");
});
