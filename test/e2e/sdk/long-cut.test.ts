// suite: soak
// browser: windows
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openCall } from "./call.ts";
import { openStage, type Stage } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({ CHAT_SEND_RATE_LIMIT: 1000 });
}, 180_000);
afterAll(() => stage?.close());

test("[6] a call and a chat reconnect after 90 seconds without a packet, which outlast the session and the token", async () => {
  const pages = [await stage.page(), await stage.page()] as const;
  const call = await openCall(stage, "cut-90", pages, { ttlSeconds: 60 });
  await call.bothSeeAndHear();
  await call.cut();
  await call.say(3);
  await Bun.sleep(65_000);
  expect((await stage.stoa.rooms.list()).find(({ name }) => name === "cut-90")?.participantCount).toBe(0);
  await call.say(3);
  await Bun.sleep(25_000);
  expect(call.renewals("rtc")).toBe(0);
  await call.heal();
  await call.bothSeeAndHear(90_000);
  await call.nothingLost();
  // A call continues without a valid token; only a new join needs one.
  expect(call.renewals("rtc")).toBe(2);
  expect(call.renewals("chat")).toBeGreaterThanOrEqual(2);
  expect(call.renewals("chat")).toBeLessThan(20);
  for (const page of pages) {
    const states = await page.evaluate(() => window.states);
    expect([states.includes("RECONNECTING"), states.at(-1), states.includes("FAILED")]).toEqual([
      true,
      "CONNECTED",
      false,
    ]);
  }
  expect(pages.flatMap(({ errors }) => errors)).toEqual([]);
}, 240_000);
