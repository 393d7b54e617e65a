import { afterAll, beforeAll, expect, test } from "bun:test";
import { joinRoom, moreFrames } from "./page-api.ts";
import { openStage, type Stage } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 60_000);
afterAll(() => stage.close());

test("two pages of another origin see and hear each other", async () => {
  const room = await stage.stoa.rooms.create({ name: "two" });
  const [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  await joinRoom(anna, await stage.rtc(room.id, "anna"), ["camera", "microphone"]);
  await joinRoom(ben, await stage.rtc(room.id, "ben"), ["camera", "microphone"]);
  await Promise.all([moreFrames(anna, "ben-camera"), moreFrames(ben, "anna-camera")]);
  const audible = (page: typeof anna) =>
    page.waitForFunction(async () => {
      const stats = await window.room.getStats();
      return stats?.tracks.some(({ direction, kind, bps }) => direction === "in" && kind === "audio" && (bps ?? 0) > 0);
    });
  await Promise.all([audible(anna), audible(ben)]);
  expect(await anna.evaluate(() => [...window.room.participants.keys()])).toEqual(["ben"]);
  expect([...anna.errors, ...ben.errors]).toEqual([]);
  await anna.evaluate(() => window.room.close());
  await ben.waitForFunction(() => window.seen.includes("left anna left"));
  await ben.waitForFunction(() => document.getElementById("anna-camera") === null);
}, 60_000);
