// suite: all
import { expect, test } from "bun:test";
import { reconnectStorm } from "./reconnect-storm.ts";

const sockets = Number(process.env.STORM_SOCKETS ?? 2000);

test(`[chat] ${sockets} sockets reconnect together, each resumes without a gap, and sends continue meanwhile`, async () => {
  const report = await reconnectStorm(sockets);
  expect(report).toMatchObject({ resumed: sockets, gaps: 0 });
  expect(report.missedEvents).toBeGreaterThanOrEqual(sockets * 3);
  expect(report.sendsDuring).toBeGreaterThan(5);
  // No presence change is sent, because every user is back before the TTL.
  expect(report.presenceFrames).toBe(0);
  if (process.env.STORM_REPORT) console.log(JSON.stringify(report, null, 2));
}, 180_000);
