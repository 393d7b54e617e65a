import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Firefox, launchFirefox } from "./firefox.ts";
import { hearing, joinRoom, moreFrames, noted, showing } from "./page-api.ts";
import type { Scripted } from "./scripted.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let firefox: Firefox;
let anna: SitePage;
let fritz: Scripted;
let roomId: string;
beforeAll(async () => {
  [stage, firefox] = await Promise.all([openStage(), launchFirefox()]);
  ({ id: roomId } = await stage.stoa.rooms.create({ name: "both" }));
  [anna, fritz] = await Promise.all([stage.page(), firefox.page(stage.siteUrl)]);
  await Promise.all([
    joinRoom(anna, await stage.rtc(roomId, "anna"), ["camera", "microphone"]),
    joinRoom(fritz, await stage.rtc(roomId, "fritz"), ["camera", "microphone"]),
  ]);
}, 180_000);
afterAll(() => Promise.all([firefox?.close(), stage?.close()]));

describe("[6] Firefox and Chromium in one room", () => {
  test("they see and hear each other", async () => {
    await Promise.all([
      moreFrames(anna, "fritz-camera"),
      moreFrames(fritz, "anna-camera"),
      hearing(anna),
      hearing(fritz),
    ]);
    const microphone = await fritz.evaluate(() => window.room.localParticipant.track("microphone")?.id, undefined);
    expect(microphone).toBeString();
  }, 180_000);

  test("Firefox sends three sizes, and each gets the one that its element shows", async () => {
    for (const [viewer, id] of [
      [anna, "fritz-camera"],
      [fritz, "anna-camera"],
    ] as [Scripted, string][]) {
      await showing(viewer, id, [300, 400]);
      await resize(viewer, id, "width:160px;height:90px");
      await showing(viewer, id, [90, 200]);
      await resize(viewer, id, "width:1280px;height:720px");
      await showing(viewer, id, [540, 720]);
      await moreFrames(viewer, id);
    }
  }, 180_000);

  test("muting, a camera switched off and on, and data work both ways", async () => {
    await fritz.evaluate(async () => {
      const { localParticipant } = window.room;
      const microphone = localParticipant.track("microphone");
      if (microphone) await localParticipant.mute(microphone);
      await localParticipant.disableCamera();
      await window.room.sendData("a".repeat(60_000), { topic: "large" });
    }, undefined);
    await noted(anna, "muted fritz microphone");
    await noted(anna, "data fritz large 60000");
    await anna.waitForFunction(() => document.getElementById("fritz-camera") === null);
    await fritz.evaluate(async () => {
      await window.room.localParticipant.enableCamera();
      await window.room.localParticipant.enableMicrophone();
    }, undefined);
    await moreFrames(anna, "fritz-camera");
    await anna.evaluate(() => window.room.sendData("b", { topic: "small" }));
    await noted(fritz, "data anna small 1");
  }, 180_000);

  test("figures are summed up in Firefox too, and no error was told", async () => {
    await fritz.evaluate(() => window.room.getStats(), undefined);
    await Bun.sleep(1000);
    const stats = await fritz.evaluate(() => window.room.getStats(), undefined);
    expect(stats).toMatchObject({ path: "udp", rttMs: expect.any(Number) });
    expect(stats?.inBps).toBeGreaterThan(0);
    expect(stats?.outBps).toBeGreaterThan(0);
    const picture = stats?.tracks.find(({ direction, kind, bps }) => direction === "in" && kind === "video" && bps);
    expect(picture).toMatchObject({ codec: "VP8", height: expect.any(Number) });
    for (const page of [anna, fritz] as Scripted[]) {
      const errors = await page.evaluate(() => window.seen.filter((line) => line.startsWith("error")), undefined);
      expect(errors).toEqual([]);
    }
  }, 180_000);
});

function resize(page: Scripted, id: string, size: string): Promise<void> {
  return page.evaluate(
    ({ id, size }) => {
      const element = document.getElementById(id);
      if (element) element.style.cssText = `display:block;${size}`;
    },
    { id, size },
  );
}
