import { expect, test } from "bun:test";
import { type CallEvent, faultsOf } from "./call-history.ts";
import { killDuringCalls } from "./call-kills.ts";

const event = (type: string, data: object): CallEvent => ({
  id: crypto.randomUUID(),
  type,
  data: { callId: "c", ...data },
});
const ada = { identity: "ada", connectionId: "1" };
const WHOLE = [
  event("call.started", {}),
  event("call.participant_joined", ada),
  event("call.participant_left", ada),
  event("call.ended", { participantCount: 1, peakParticipants: 1 }),
];

test("[17] the test's checker accepts the events of a complete call, and finds every fault in them", () => {
  const [started, joined, left, ended] = WHOLE as [CallEvent, CallEvent, CallEvent, CallEvent];
  expect(faultsOf(WHOLE)).toEqual([]);
  expect(faultsOf([started, joined, ended])).toEqual([]);
  for (const broken of [
    [started, joined, left],
    [joined, left, ended],
    [started, left, joined, ended],
    [started, ended, joined, left],
    [...WHOLE, ended],
    [started, ...WHOLE],
    [started, ended],
    [started, joined, joined, ended],
  ])
    expect(faultsOf(broken)).not.toEqual([]);
});

/** More rounds: `bin/bench calls`. */
test("[17] kill -9 during joins and leaves: the events of each call are in order, with one end, and no call is empty", async () => {
  const { calls, faults } = await killDuringCalls(2);
  expect(faults).toEqual([]);
  expect(calls).toBeGreaterThan(0);
}, 180_000);
