import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { framesShown, joinRoom, receivesAudio, waitForFrames, waitForLine, waitForVideoHeight } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let anna: SitePage;
let ben: SitePage;
let roomId: string;
beforeAll(async () => {
  stage = await openStage();
  ({ id: roomId } = await stage.stoa.rooms.create({ name: "two" }));
  [anna, ben] = await Promise.all([stage.page(), stage.page()]);
}, 180_000);
afterAll(() => stage.close());

describe("[6] a call between two pages of another origin", () => {
  test("both receive audio and video of each other", async () => {
    await joinRoom(anna, await stage.rtc(roomId, "anna"), ["camera", "microphone"]);
    await joinRoom(ben, await stage.rtc(roomId, "ben"), ["camera", "microphone"]);
    await Promise.all([
      waitForFrames(anna, "ben-camera"),
      waitForFrames(ben, "anna-camera"),
      receivesAudio(anna),
      receivesAudio(ben),
    ]);
    expect(await anna.evaluate(() => [...window.room.participants.keys()])).toEqual(["ben"]);
    await waitForLine(anna, "joined ben");
    expect(await ben.evaluate(() => window.states)).toEqual([]);
  }, 180_000);

  test("existing tracks are subscribed to in the first offer", async () => {
    const page = await stage.page();
    await page.evaluate(() => {
      const { send } = WebSocket.prototype;
      WebSocket.prototype.send = function (data) {
        const { type, subscribe } = JSON.parse(String(data));
        if (type === "media.offer") window.seen.push(`${subscribe.length} tracks`);
        send.call(this, data);
      };
    });
    await joinRoom(page, await stage.rtc(roomId, "cleo", {}));
    await Promise.all([waitForFrames(page, "anna-camera"), waitForFrames(page, "ben-camera")]);
    expect(await page.evaluate(() => window.seen.filter((line) => line.endsWith("tracks")))).toEqual(["4 tracks"]);
    await page.evaluate(() => window.room.close());
    await page.close();
  }, 180_000);

  test("a participant who speaks is an active speaker", async () => {
    // The fake microphone beeps.
    await anna.waitForFunction(() => window.room.activeSpeakers.some(({ identity }) => identity === "ben"));
    await anna.waitForFunction(() => (window.room.participants.get("ben")?.audioLevel ?? 0) > 0);
  });

  test("DTX and forward error correction are negotiated for Opus", async () => {
    const codec = await anna.evaluate(() => {
      const microphone = window.room.localParticipant.track("microphone");
      return microphone?.sender?.getParameters().codecs.find(({ mimeType }) => /opus/.test(mimeType))?.sdpFmtpLine;
    });
    expect(codec).toContain("usedtx=1");
    expect(codec).toContain("useinbandfec=1");
  });

  test("muting notifies the other page and stops the audio; unmuting resumes it", async () => {
    await ben.evaluate(async () => {
      const { localParticipant } = window.room;
      const microphone = localParticipant.track("microphone");
      if (microphone) await localParticipant.mute(microphone);
    });
    await waitForLine(anna, "muted ben microphone");
    expect(await anna.evaluate(() => window.room.participants.get("ben")?.track("microphone")?.muted)).toBe(true);
    await anna.waitForFunction(() => window.room.activeSpeakers.every(({ identity }) => identity !== "ben"));
    await ben.evaluate(() => window.room.localParticipant.enableMicrophone());
    await waitForLine(anna, "unmuted ben microphone");
    await anna.waitForFunction(() => window.room.activeSpeakers.some(({ identity }) => identity === "ben"));
  }, 180_000);

  test("a camera that is disabled and enabled is a new track on the same section", async () => {
    const sections = () => ben.evaluate(async () => (await window.room.getStats())?.tracks.length ?? 0);
    const before = await sections();
    await ben.evaluate(() => window.room.localParticipant.disableCamera());
    await anna.waitForFunction(() => document.getElementById("ben-camera") === null);
    expect(await anna.evaluate(() => window.room.participants.get("ben")?.track("camera"))).toBeUndefined();
    await ben.evaluate(() => window.room.localParticipant.enableCamera());
    await waitForFrames(anna, "ben-camera");
    expect(await sections()).toBe(before);
  }, 180_000);

  test("a screen is shared beside the camera and unpublished", async () => {
    await ben.evaluate(() => window.room.localParticipant.shareScreen());
    await Promise.all([waitForFrames(anna, "ben-screenShare"), waitForFrames(anna, "ben-camera")]);
    await ben.evaluate(() => window.room.localParticipant.stopScreen());
    await anna.waitForFunction(() => document.getElementById("ben-screenShare") === null);
  }, 180_000);

  test("data of up to 64 KB reaches all or selected participants, reliably or not", async () => {
    const sent = await anna.evaluate(async () => {
      const { room } = window;
      await room.sendData("a".repeat(60_000), { topic: "large" });
      await room.sendData("b", { topic: "lossy", reliable: false });
      await room.sendData("c", { topic: "private", to: ["nobody"] });
      await room.sendData("d", { topic: "last", to: ["ben"] });
      return room.sendData("e".repeat(70_000)).catch((error) => `${error.code} ${error.reason}`);
    });
    expect(sent).toBe("PAYLOAD_TOO_LARGE invalid");
    await waitForLine(ben, "data anna last 1");
    await waitForLine(ben, "data anna lossy 1");
    const data = await ben.evaluate(() => window.seen.filter((line) => line.startsWith("data")));
    expect(data.sort()).toEqual(["data anna large 60000", "data anna last 1", "data anna lossy 1"]);
  }, 180_000);

  test("[2] the received layer follows the element's size, and hidden elements receive nothing", async () => {
    await waitForVideoHeight(anna, "ben-camera", [360, 720]);
    await anna.evaluate(() => {
      const element = document.getElementById("ben-camera");
      if (element) element.style.cssText = "display:block;width:160px;height:90px";
    });
    await waitForVideoHeight(anna, "ben-camera", [90, 180]);
    await anna.evaluate(() => {
      const element = document.getElementById("ben-camera");
      if (element) element.style.cssText = "display:block;width:160px;height:90px;margin-top:5000px";
    });
    await anna.waitForFunction(() => window.room.participants.get("ben")?.track("camera")?.delivered?.paused === true);
    const paused = await framesShown(anna, "ben-camera");
    // Without subscribers the publisher stops encoding.
    await ben.waitForFunction(
      () => {
        const sender = window.room.localParticipant.track("camera")?.sender;
        return sender?.getParameters().encodings.every(({ active }) => !active);
      },
      undefined,
      { timeout: 60_000 },
    );
    // Frames in transit are still shown.
    expect((await framesShown(anna, "ben-camera")) - paused).toBeLessThan(15);
    await anna.evaluate(() => {
      const element = document.getElementById("ben-camera");
      if (element) element.style.cssText = "display:block;width:1280px;height:720px";
    });
    await waitForVideoHeight(anna, "ben-camera", [540, 720]);
  }, 180_000);

  test("getStats returns the path, the rates and the tracks", async () => {
    const stats = await anna.evaluate(async () => {
      await window.room.getStats();
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return window.room.getStats();
    });
    expect(stats?.path).toBe("udp");
    expect(stats?.rttMs).toBeNumber();
    expect(stats?.inBps).toBeGreaterThan(0);
    expect(stats?.outBps).toBeGreaterThan(0);
    const video = stats?.tracks.find(({ direction, kind, bps }) => direction === "in" && kind === "video" && bps);
    expect(video?.codec).toBe("VP8");
    expect(video?.height).toBeGreaterThan(0);
  }, 180_000);

  const farewells = () => ben.evaluate(() => window.seen.filter((line) => line.startsWith("left anna")));

  test("a participant who leaves is removed at once, and no page has reported an error", async () => {
    await anna.evaluate(() => window.room.close());
    await waitForLine(ben, "left anna left");
    await ben.waitForFunction(() => document.getElementById("anna-camera") === null);
    expect(await ben.evaluate(() => window.seen.filter((line) => line.startsWith("error")))).toEqual([]);
    expect([...anna.errors, ...ben.errors]).toEqual([]);
    // A closed tab leaves too, if it runs its unload handlers. Chromium limits their time, which a busy machine may exceed
    // occasionally.
    let farewell: string | undefined;
    for (let tabs = 0; tabs < 3 && farewell !== "left anna left"; tabs += 1) {
      const tab = tabs === 0 ? anna : await stage.page();
      const before = (await farewells()).length;
      await joinRoom(tab, await stage.rtc(roomId, "anna"));
      await ben.waitForFunction(() => window.room.participants.has("anna"), undefined, { polling: 100 });
      await tab.close({ runBeforeUnload: true });
      for (let seen = await farewells(); ; seen = await farewells()) {
        farewell = seen[before];
        if (farewell !== undefined) break;
        await Bun.sleep(100);
      }
    }
    expect(farewell).toBe("left anna left");
  }, 180_000);
});
