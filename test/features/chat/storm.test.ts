// suite: all
import { expect, test } from "bun:test";
import { reconnectStorm } from "./storm.ts";

const sockets = Number(process.env.STORM_SOCKETS ?? 2000);

test(`[chat] ${sockets} sockets break and come back at once: each resumes without a gap, and sends go on meanwhile`, async () => {
  const report = await reconnectStorm(sockets);
  expect(report).toMatchObject({ resumed: sockets, gaps: 0 });
  expect(report.missedEvents).toBeGreaterThanOrEqual(sockets * 3);
  expect(report.sendsDuring).toBeGreaterThan(5);
  // They were never missed: nobody is told of anyone going or coming.
  expect(report.presenceFrames).toBe(0);
  if (process.env.STORM_REPORT) console.log(JSON.stringify(report, null, 2));
}, 180_000);
