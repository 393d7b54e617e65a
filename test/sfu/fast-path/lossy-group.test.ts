import { expect, test } from "bun:test";
import { Stage } from "../tracks/stage.ts";

const KEYFRAME = Uint8Array.of(0x90, 0x80, 0x01, 0x10, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0);
const FRAME = Uint8Array.of(0x90, 0x80, 0x02, 0x11, 0, 0);

test("a fan-out group keeps its members while packets are lost on their way to the server, late, or repeated", () => {
  const stage = new Stage("VP8");
  stage.receive(1, 0, FRAME, 0);
  const viewers = Array.from({ length: 20 }, () => stage.watch(0));
  stage.receive(2, 3_000, KEYFRAME, 0);
  stage.receive(3, 3_000, FRAME, 0);
  stage.slowPathCopies = stage.groupCopies = 0;
  const late: { number: number; dueAt: number }[] = [];
  let sent = 0;
  const receive = (number: number, nowMs: number) => stage.receive(number, number * 3_000, FRAME, nowMs);
  for (let number = 4; number < 2_004; number++) {
    // Every twentieth is lost; half of those are sent again; every thirtieth comes twice.
    if (number % 20 === 0) {
      if (number % 40 === 0) late.push({ number, dueAt: number + 7 });
    } else {
      receive(number, number * 10);
      sent += 1;
      if (number % 30 === 1) receive(number, number * 10);
    }
    for (const repaired of late.filter(({ dueAt }) => dueAt === number)) {
      receive(repaired.number, number * 10);
      sent += 1;
    }
  }
  expect(stage.slowPathCopies).toBe(0);
  expect(stage.groupCopies).toBe(sent * viewers.length);
  const [first] = viewers;
  for (const { seen } of viewers) expect(seen.length).toBe(first?.seen.length ?? 0);
  const numbers = first?.seen.map(({ sequenceNumber }) => sequenceNumber) ?? [];
  expect(new Set(numbers).size).toBe(numbers.length);
});
