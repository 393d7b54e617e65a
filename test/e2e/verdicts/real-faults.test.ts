// suite: soak
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { VerdictCause } from "../../../src/protocol/room-records.ts";
import { FAULTS } from "./faults.ts";
import { play } from "./play.ts";
import { openVerdictStage, type VerdictStage } from "./stage.ts";

const PLACES = 4;
const TERMS = { calls: 1, patienceMs: 140_000, healthyMs: 0 };

let stage: VerdictStage;
beforeAll(async () => {
  stage = await openVerdictStage(PLACES);
}, 180_000);
afterAll(() => stage?.close(), 60_000);

/** One call for each, at once, each at a place of its own; what was not as it should be, by cause. */
async function wrong(...causes: VerdictCause[]): Promise<Record<string, unknown>> {
  const all = await Promise.all(
    causes.map(async (cause, n) => {
      const [place, fault] = [stage.places[n], FAULTS.find((one) => one.cause === cause)];
      if (!place || !fault) throw new Error(`there is no place or fault for ${cause}`);
      const played = await play(stage, place, fault, TERMS);
      // That nothing else is named, and nothing to those who have no trouble, needs a quiet machine: `bin/bench verdicts`.
      const isRight = played.every(({ told, verdicts }) => told.includes(cause) && verdicts.length > 0);
      return isRight ? [] : [[cause, played]];
    }),
  );
  return Object.fromEntries(all.flat());
}

test("[17] a lossy link and a narrow link are found as causes, with their direction", async () => {
  expect(await wrong("uplink_loss", "downlink_loss", "downlink_narrow")).toEqual({});
}, 180_000);

test("[17] a long round trip, a distant relay, repeated outages and a camera failure are found as causes", async () => {
  expect(await wrong("high_rtt", "relayed", "reconnects", "device")).toEqual({});
}, 180_000);

test("[17] a firewall that blocks media is found as the cause", async () => {
  expect(await wrong("media_stalled")).toEqual({});
}, 180_000);
