/** What livekit-client offers beyond what the other tests of this folder use, in its newest version and in 2.15. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { happened, hears, isGone, joinLivekit, publishCanvas, sees } from "./harness/livekit-page.ts";
import { RawClient } from "./harness/raw-client.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const SCRIPTS: LivekitPackage[] = ["livekit-client", "livekit-client-two-connections"];

/** What happens from now on counts. */
const forget = (page: Page) =>
  page.evaluate(() => {
    for (const element of document.querySelectorAll("video")) element.id = "";
    window.events.length = 0;
  });

type Named = { identity: string };
type Source = { source: string };

/** Events of a room that is joined, beside those that `joinLivekit` notes. */
const noteMore = (page: Page) =>
  page.evaluate(() => {
    const { RoomEvent } = window.LivekitClient;
    const note = (event: string) => void window.events.push(event);
    window.livekit
      .on(RoomEvent.TrackSubscriptionPermissionChanged, (pub: Source, status: string, { identity }: Named) =>
        note(`${identity} ${pub.source} ${status}`),
      )
      .on(RoomEvent.RecordingStatusChanged, (isRecording: boolean) => note(`recording ${isRecording}`));
  });

async function pairIn(room: string, script: LivekitPackage): Promise<[ann: Page, ben: Page]> {
  const [ann, ben] = [await stage.page(script), await stage.page(script)];
  await joinLivekit(ann, stage.wsUrl, await stage.token(room, "ann"), { publish: false });
  await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"), { publish: false });
  await Promise.all([noteMore(ann), noteMore(ben)]);
  await publishCanvas(ann);
  await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
  return [ann, ben];
}

const closing = async (...pages: Page[]) => {
  for (const page of pages) await page.context().close();
};

/** Fifteen more frames of ann's video are shown. */
const goesOn = async (page: Page) => {
  const frames = () =>
    page.evaluate(
      () => (document.getElementById("ann-camera") as HTMLVideoElement).getVideoPlaybackQuality().totalVideoFrames,
    );
  await sees(page, "ann", "camera", (await frames()) + 15);
};

for (const script of SCRIPTS) {
  test(
    `${script}: what a subscriber and a publisher choose for a track, devices, permissions and recording`,
    async () => {
      const room = `chosen-${script}`;
      const [ann, ben] = await pairIn(room, script);
      const choose = (method: string, value: unknown) =>
        ben.evaluate(
          ({ method, value }) =>
            window.livekit.remoteParticipants.get("ann").getTrackPublication("camera")[method](value),
          { method, value },
        );
      /** The rate and height of what arrives. */
      const arrives = (least: number, most: number, highest: number) =>
        ben.waitForFunction(
          async ([least = 0, most = 0, highest = 0]) => {
            const { track } = window.livekit.remoteParticipants.get("ann").getTrackPublication("camera");
            const stats = [...(await track.receiver.getStats()).values()];
            const { framesPerSecond = 0, frameHeight = 0 } = stats.find(({ type }) => type === "inbound-rtp") ?? {};
            return framesPerSecond >= least && framesPerSecond <= most && frameHeight <= highest;
          },
          [least, most, highest],
          { timeout: WAIT_MS, polling: 300 },
        );
      await choose("setEnabled", false);
      await arrives(0, 0, 360);
      await choose("setEnabled", true);
      await arrives(9, 60, 360);
      await choose("setVideoDimensions", { width: 160, height: 90 });
      await arrives(1, 60, 180);
      await choose("setVideoDimensions", { width: 640, height: 360 });
      await choose("setVideoFPS", 5);
      await arrives(1, 8, 360);
      await choose("setVideoFPS", 60);
      await arrives(9, 60, 360);

      await ann.evaluate(() => window.livekit.localParticipant.getTrackPublication("camera").track.pauseUpstream());
      await happened(ben, "muted ann camera");
      await ann.evaluate(() => window.livekit.localParticipant.getTrackPublication("camera").track.resumeUpstream());
      await happened(ben, "unmuted ann camera");
      await ann.evaluate(async () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
        const context = canvas.getContext("2d") as CanvasRenderingContext2D;
        setInterval(() => context.fillRect(0, 0, Math.random() * 640, 360), 50);
        const [video] = canvas.captureStream(20).getVideoTracks();
        await window.livekit.localParticipant.getTrackPublication("camera").track.replaceTrack(video);
      });
      await goesOn(ben);
      const switched = await ann.evaluate(async () => {
        const { livekit, LivekitClient } = window;
        const devices = await LivekitClient.Room.getLocalDevices("audioinput");
        const other = devices.find(({ deviceId }: MediaDeviceInfo) => !["default", ""].includes(deviceId));
        await livekit.switchActiveDevice("audioinput", other.deviceId);
        return livekit.getActiveDevice("audioinput") === other.deviceId;
      });
      expect(switched).toBe(true);
      await forget(ben);
      await ann.evaluate(() => window.livekit.localParticipant.republishAllTracks());
      await sees(ben, "ann");

      const allow = (all: boolean) =>
        ann.evaluate((all) => window.livekit.localParticipant.setTrackSubscriptionPermissions(all, []), all);
      await allow(false);
      await Promise.all([isGone(ben, "ann-camera"), happened(ben, "ann camera not_allowed")]);
      await allow(true);
      await Promise.all([sees(ben, "ann"), happened(ben, "ann camera allowed")]);
      const permit = (canSubscribe: boolean) =>
        stage.rooms.updateParticipant(room, "ben", {
          permission: { canSubscribe, canPublish: true, canPublishData: true },
        });
      await permit(false);
      await isGone(ben, "ann-camera");
      await permit(true);
      await sees(ben, "ann");

      const grant = { recorder: true, hidden: true };
      const recorder = await RawClient.open(stage.wsUrl, await stage.token(room, "recorder", { grant }));
      await happened(ben, "recording true");
      expect(await ben.evaluate(() => window.livekit.isRecording as boolean)).toBe(true);
      recorder.send({ case: "leave", value: {} as never });
      await happened(ben, "recording false");
      if (script === "livekit-client") {
        const outcome = await ann.evaluate(() =>
          window.livekit.localParticipant.publishDataTrack({ name: "d" }).then(
            () => "done",
            (error: Error) => error.message,
          ),
        );
        expect(outcome).toContain("not served here");
      }
      await closing(ann, ben);
    },
    5 * WAIT_MS,
  );

  test(
    `${script}: publishing before the connection, a wrong token, and the reasons of every end`,
    async () => {
      const room = `ended-${script}`;
      const pages = await Promise.all([0, 1, 2, 3].map(() => stage.page(script)));
      const [ann, ben, cas, twin] = pages as [Page, Page, Page, Page];
      const error = await ann.evaluate(
        (url) =>
          new window.LivekitClient.Room().connect(url, "nonsense").then(
            () => null,
            ({ name, message }: Error) => `${name}: ${message}`,
          ),
        stage.wsUrl,
      );
      expect(error).toMatch(/^ConnectionError: .*the token is no JWT/);
      const published = await ann.evaluate(
        async ([url, token]) => {
          const early = new window.LivekitClient.Room();
          window.livekit = early;
          const connected = early.connect(url, token);
          await early.localParticipant.setMicrophoneEnabled(true);
          await connected;
          return early.localParticipant.isMicrophoneEnabled as boolean;
        },
        [stage.wsUrl, await stage.token(room, "early")],
      );
      expect(published).toBe(true);
      const { tracks } = await stage.rooms.getParticipant(room, "early");
      expect(tracks).toHaveLength(1);

      const join = async (page: Page, identity: string) =>
        joinLivekit(page, stage.wsUrl, await stage.token(room, identity), { publish: false });
      await join(ben, "ben");
      await join(twin, "ben");
      await happened(ben, "disconnected 2");
      await stage.rooms.removeParticipant(room, "ben");
      await happened(twin, "disconnected 4");
      await join(cas, "cas");
      await join(ben, "dora");
      await ben.evaluate(() => window.livekit.disconnect());
      await happened(ben, "disconnected 1");
      await stage.rooms.deleteRoom(room);
      await happened(cas, "disconnected 5");
      await closing(...pages);
    },
    5 * WAIT_MS,
  );
}
