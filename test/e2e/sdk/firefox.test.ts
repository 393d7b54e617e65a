import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Firefox, openFirefox } from "./firefox.ts";
import { joinRoom, receivesAudio, waitForFrames, waitForLine, waitForVideoHeight } from "./page-api.ts";
import type { Scripted } from "./scripted.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let firefox: Firefox;
let anna: SitePage;
let fritz: Scripted;
let roomId: string;
beforeAll(async () => {
  [stage, firefox] = await Promise.all([openStage(), openFirefox()]);
  ({ id: roomId } = await stage.stoa.rooms.create({ name: "both" }));
  [anna, fritz] = await Promise.all([stage.page(), firefox.page(stage.siteUrl)]);
  await Promise.all([
    joinRoom(anna, await stage.rtc(roomId, "anna"), ["camera", "microphone"]),
    joinRoom(fritz, await stage.rtc(roomId, "fritz"), ["camera", "microphone"]),
  ]);
}, 180_000);
afterAll(() => Promise.all([firefox?.close(), stage?.close()]));

describe("[6] Firefox and Chromium in one room", () => {
  test("both receive audio and video of each other", async () => {
    await Promise.all([
      waitForFrames(anna, "fritz-camera"),
      waitForFrames(fritz, "anna-camera"),
      receivesAudio(anna),
      receivesAudio(fritz),
    ]);
    const microphone = await fritz.evaluate(() => window.room.localParticipant.track("microphone")?.id, undefined);
    expect(microphone).toBeString();
  }, 180_000);

  test("Firefox sends three layers, and each viewer receives the one that fits its element", async () => {
    for (const [viewer, id] of [
      [anna, "fritz-camera"],
      [fritz, "anna-camera"],
    ] as [Scripted, string][]) {
      await waitForVideoHeight(viewer, id, [300, 400]);
      await resize(viewer, id, "width:160px;height:90px");
      await waitForVideoHeight(viewer, id, [90, 200]);
      await resize(viewer, id, "width:1280px;height:720px");
      await waitForVideoHeight(viewer, id, [540, 720]);
      await waitForFrames(viewer, id);
    }
  }, 180_000);

  test("VP9 of Firefox arrives in full size", async () => {
    await fritz.evaluate(async () => {
      await window.room.localParticipant.disableCamera();
      await window.room.localParticipant.enableCamera({ codec: "VP9", width: 1280, height: 720 });
    }, undefined);
    await waitForFrames(anna, "fritz-camera");
    await resize(anna, "fritz-camera", "width:1280px;height:720px");
    await waitForVideoHeight(anna, "fritz-camera", [540, 720]);
    await fritz.evaluate(async () => {
      await window.room.localParticipant.disableCamera();
      await window.room.localParticipant.enableCamera();
    }, undefined);
    await waitForFrames(anna, "fritz-camera");
  }, 180_000);

  test("muting, disabling and enabling the camera, and data work in both directions", async () => {
    await fritz.evaluate(async () => {
      const { localParticipant } = window.room;
      const microphone = localParticipant.track("microphone");
      if (microphone) await localParticipant.mute(microphone);
      await localParticipant.disableCamera();
      await window.room.sendData("a".repeat(60_000), { topic: "large" });
    }, undefined);
    await waitForLine(anna, "muted fritz microphone");
    await waitForLine(anna, "data fritz large 60000");
    await anna.waitForFunction(() => document.getElementById("fritz-camera") === null);
    await fritz.evaluate(async () => {
      await window.room.localParticipant.enableCamera();
      await window.room.localParticipant.enableMicrophone();
    }, undefined);
    await waitForFrames(anna, "fritz-camera");
    await anna.evaluate(() => window.room.sendData("b", { topic: "small" }));
    await waitForLine(fritz, "data anna small 1");
  }, 180_000);

  test("getStats works in Firefox, and no error was reported", async () => {
    await fritz.evaluate(() => window.room.getStats(), undefined);
    await Bun.sleep(1000);
    const stats = await fritz.evaluate(() => window.room.getStats(), undefined);
    expect(stats).toMatchObject({ path: "udp", rttMs: expect.any(Number) });
    expect(stats?.inBps).toBeGreaterThan(0);
    expect(stats?.outBps).toBeGreaterThan(0);
    const video = stats?.tracks.find(({ direction, kind, bps }) => direction === "in" && kind === "video" && bps);
    expect(video).toMatchObject({ codec: "VP8", height: expect.any(Number) });
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
