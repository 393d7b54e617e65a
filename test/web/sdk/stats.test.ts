import { expect, test } from "bun:test";
import { StatsReader } from "../../../web/sdk/room/peer/stats.ts";

type Entry = { id: string; type: string; [field: string]: unknown };

const read = (entries: Entry[]) =>
  new StatsReader().read({
    getStats: async () => new Map(entries.map((entry) => [entry.id, { timestamp: 1_000, ...entry }])),
  } as unknown as RTCPeerConnection);

const LOCAL = { id: "local", type: "local-candidate", candidateType: "host", protocol: "udp" };
const RELAYED = { id: "relayed", type: "local-candidate", candidateType: "relay", protocol: "udp" };
const PAIRS = [
  { id: "given up", type: "candidate-pair", localCandidateId: "local", selected: false },
  { id: "in use", type: "candidate-pair", localCandidateId: "relayed", selected: true },
];

test("the path is that of the transport's selected pair", async () => {
  const transport = { id: "transport", type: "transport", selectedCandidatePairId: "pair" };
  const pair = { id: "pair", type: "candidate-pair", localCandidateId: "local", currentRoundTripTime: 0.04 };
  expect(await read([LOCAL, RELAYED, ...PAIRS, pair, transport])).toMatchObject({ path: "udp", rttMs: 40 });
});

test("without transport statistics the path is that of the marked pair, and the RTT comes from receiver reports", async () => {
  const reports = [0.09, 0.03].map((roundTripTime, i) => ({
    id: `report ${i}`,
    type: "remote-inbound-rtp",
    roundTripTime,
  }));
  const withoutRtt = { id: "unheard", type: "remote-inbound-rtp" };
  expect(await read([LOCAL, RELAYED, ...PAIRS, ...reports, withoutRtt])).toMatchObject({ path: "relay", rttMs: 30 });
});

test("all values are null before a pair is selected", async () => {
  expect(await read([LOCAL])).toMatchObject({ path: null, rttMs: null, inBps: null, outBps: null });
});
