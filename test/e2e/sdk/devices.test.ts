import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chromium } from "playwright-core";
import { CHROMIUM } from "../../harness/browsers.ts";
import { joinRoom, receivesAudio, waitForFrames, waitForLine } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
let anna: SitePage;
let ben: SitePage;
let roomId: string;
beforeAll(async () => {
  stage = await openStage();
  ({ id: roomId } = await stage.stoa.rooms.create({ name: "devices" }));
  [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  await joinRoom(anna, await stage.rtc(roomId, "anna"));
  await joinRoom(ben, await stage.rtc(roomId, "ben"), ["camera", "microphone"]);
  await waitForFrames(anna, "ben-camera");
}, 180_000);
afterAll(() => stage?.close());

/** Ben's published track and its device. */
const published = (source: "camera" | "microphone") =>
  ben.evaluate((source) => {
    const track = window.room.localParticipant.track(source);
    const { label, readyState } = track?.mediaStreamTrack ?? {};
    return { id: track?.id, device: label, state: readyState };
  }, source);

const switchTo = (kind: "videoinput" | "audioinput", label: string) =>
  ben.evaluate(
    async ({ kind, label }) => {
      const device = (await window.sdk.listDevices(kind)).find((one) => one.label === label);
      await window.room.localParticipant.switchDevice(kind, device?.deviceId ?? "none");
    },
    { kind, label },
  );

describe("[6] devices are switched while they are published", () => {
  test("switching the camera keeps the track and its viewers", async () => {
    const before = await published("camera");
    expect(before.device).toBe("fake_device_0");
    const old = await ben.evaluateHandle(() => window.room.localParticipant.track("camera")?.mediaStreamTrack);
    await switchTo("videoinput", "fake_device_2");
    expect(await published("camera")).toEqual({ id: before.id, device: "fake_device_2", state: "live" });
    expect(await old.evaluate((track) => track?.readyState)).toBe("ended");
    await waitForFrames(anna, "ben-camera", 30);
    expect(await anna.evaluate(() => document.querySelectorAll("video").length)).toBe(1);
  }, 180_000);

  test("switching the microphone keeps the track and its listeners", async () => {
    const before = await published("microphone");
    await switchTo("audioinput", "Fake Audio Input 1");
    expect(await published("microphone")).toEqual({ id: before.id, device: "Fake Audio Input 1", state: "live" });
    // The counting starts after the change.
    await anna.evaluate(() => window.room.getStats());
    await receivesAudio(anna);
  }, 180_000);

  test("switching to a missing device is a typed error, and the current one continues", async () => {
    const before = await published("camera");
    const refused = await ben.evaluate(() =>
      window.room.localParticipant
        .switchDevice("videoinput", "no-such-device")
        .catch(({ name, code, reason }) => ({ name, code, reason })),
    );
    expect(refused).toEqual({ name: "StoaError", code: "OverconstrainedError", reason: "device-not-found" });
    expect(await published("camera")).toEqual(before);
    await waitForFrames(anna, "ben-camera");
  }, 180_000);

  test("if only one camera can be open, the first is closed before the second is opened", async () => {
    const { id } = await published("camera");
    await ben.evaluate(() => {
      const devices = navigator.mediaDevices;
      const open = window.room.localParticipant.track("camera")?.mediaStreamTrack;
      const getUserMedia = devices.getUserMedia.bind(devices);
      devices.getUserMedia = async (constraints) => {
        if (open?.readyState === "live") throw new DOMException("Could not start video source", "NotReadableError");
        return getUserMedia(constraints);
      };
    });
    await switchTo("videoinput", "fake_device_0");
    expect(await published("camera")).toEqual({ id, device: "fake_device_0", state: "live" });
    await waitForFrames(anna, "ben-camera");
  }, 180_000);
});

/** Ends the track as if the device were removed, which is impossible with a fake device. */
const removeDevice = (source: "camera" | "microphone" | "screenShare") =>
  ben.evaluate((source) => {
    const track = window.room.localParticipant.track(source)?.mediaStreamTrack;
    track?.stop();
    track?.dispatchEvent(new Event("ended"));
  }, source);

describe("[6] devices are lost", () => {
  test("a removed camera is replaced by the remaining one, and viewers keep watching", async () => {
    await switchTo("videoinput", "fake_device_2");
    const { id } = await published("camera");
    await removeDevice("camera");
    await ben.waitForFunction(
      () => window.room.localParticipant.track("camera")?.mediaStreamTrack.readyState === "live",
    );
    expect(await published("camera")).toEqual({ id, device: "fake_device_0", state: "live" });
    const settings = () => window.room.localParticipant.track("camera")?.mediaStreamTrack.getSettings();
    expect(await ben.evaluate(settings)).toMatchObject({ width: 1280, height: 720 });
    await waitForFrames(anna, "ben-camera");
    expect(await ben.evaluate(() => window.seen.filter((line) => line.startsWith("error")))).toEqual([]);
  }, 180_000);

  test("a screen that is no longer shared is unpublished", async () => {
    await ben.evaluate(() => window.room.localParticipant.shareScreen());
    await waitForFrames(anna, "ben-screenShare");
    await removeDevice("screenShare");
    await anna.waitForFunction(() => document.getElementById("ben-screenShare") === null);
    expect(await ben.evaluate(() => window.room.localParticipant.track("screenShare"))).toBeUndefined();
  }, 180_000);

  test("removing the last camera reports an error and unpublishes the track", async () => {
    await ben.evaluate(() => {
      navigator.mediaDevices.getUserMedia = async () => {
        throw new DOMException("Requested device not found", "NotFoundError");
      };
    });
    await removeDevice("camera");
    await waitForLine(ben, "error NotFoundError The device is not connected.");
    await anna.waitForFunction(() => document.getElementById("ben-camera") === null);
    expect(await ben.evaluate(() => window.room.localParticipant.track("camera"))).toBeUndefined();
    expect([...anna.errors, ...ben.errors]).toEqual([]);
  }, 180_000);
});

test("[6] denying the camera is a typed error, and the participant stays in the call", async () => {
  const browser = await chromium.launch({
    ...CHROMIUM,
    args: [...CHROMIUM.args, "--use-fake-ui-for-media-stream=deny"],
  });
  try {
    const page = await browser.newPage();
    await page.goto(stage.siteUrl);
    await joinRoom(page, await stage.rtc(roomId, "cleo"));
    const refused = await page.evaluate(async () => {
      const { localParticipant } = window.room;
      const error = ({ code, reason, message }: { code: string; reason: string; message: string }) => ({
        code,
        reason,
        message,
      });
      return {
        camera: await localParticipant.enableCamera().then(String, error),
        microphone: await localParticipant.enableMicrophone().then(String, error),
        tracks: localParticipant.tracks.size,
        state: window.room.state,
      };
    });
    const denied = {
      code: "NotAllowedError",
      reason: "permission-denied",
      message: "The user or the browser's settings denied access to the device.",
    };
    expect(refused).toEqual({ camera: denied, microphone: denied, tracks: 0, state: "CONNECTED" });
    await anna.waitForFunction(() => window.room.participants.get("cleo")?.tracks.size === 0);
  } finally {
    await browser.close();
  }
}, 180_000);
