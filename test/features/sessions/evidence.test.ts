import { expect, test } from "bun:test";
import { EvidenceCollector } from "../../../src/features/sessions/calls/evidence.ts";

const FIGURES = { rttMs: 30, jitterMs: 3, packetLossPercent: 0 };

test("[17] an outage of both socket and media is one reconnect, two outages of the same path are two", () => {
  const gathered = new EvidenceCollector();
  gathered.record({ type: "reconnected", path: "signaling" }, 10_000);
  gathered.record({ type: "reconnected", path: "media" }, 14_000);
  expect(gathered.at(15_000).reconnects).toBe(1);
  gathered.record({ type: "reconnected", path: "media" }, 16_000);
  gathered.record({ type: "reconnected", path: "signaling" }, 60_000);
  expect(gathered.at(60_000).reconnects).toBe(3);
});

test("[17] reduced video counts from one measurement to the next, even across two windows", () => {
  const whole = new EvidenceCollector();
  for (const [at, heldBack] of [
    [5_000, true],
    [10_000, true],
    [15_000, false],
    [20_000, true],
  ] as const)
    whole.record({ type: "stats", ...FIGURES, heldBack }, at);
  expect(whole.at(21_000).heldBackSeconds).toBe(10);
  const next = whole.continuedFrom(21_000);
  next.record({ type: "stats", ...FIGURES, heldBack: true }, 25_000);
  expect(next.at(25_000).heldBackSeconds).toBe(5);
});

test("[17] a server counts as busy from one measurement to the next, with its highest load", () => {
  const gathered = new EvidenceCollector();
  const stats = { type: "stats", ...FIGURES } as const;
  for (const [at, busy] of [
    [5_000, 99],
    [10_000, 95],
    [15_000, 40],
    [20_000, null],
  ] as const)
    gathered.record(stats, at, busy);
  expect(gathered.at(21_000)).toMatchObject({ serverCpuPercent: 99, serverBusySeconds: 5 });
});

test("[17] the round trip is the median, so a single stall does not make a link slow", () => {
  const gathered = new EvidenceCollector();
  let at = 0;
  const measure = (rttMs: number) => {
    at += 5_000;
    gathered.record({ type: "stats", ...FIGURES, rttMs }, at);
  };
  for (const rttMs of [12, 2_300]) measure(rttMs);
  expect(gathered.at(at).rttMs).toBe(12);
  // An hour of one, and then three of another.
  for (let n = 0; n < 720; n++) measure(40 + (n % 3));
  expect(gathered.at(at).rttMs).toBe(41);
  for (let n = 0; n < 2_160; n++) measure(400 + (n % 3));
  expect(gathered.at(at).rttMs).toBeWithin(400, 403);
});
