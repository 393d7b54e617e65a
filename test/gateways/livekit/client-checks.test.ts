/** What livekit-client offers beyond what the other tests of this folder use, in its newest version and in 2.15. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Firefox, openFirefox } from "../../e2e/sdk/firefox.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { got, happened, hears, isGone, joinLivekit, publishCanvas, sees, shownFrames } from "./harness/livekit-page.ts";
import { RawClient } from "./harness/raw-client.ts";
import {
  type BrowserName,
  type LivekitPackage,
  type OpenPage,
  openPage,
  openStage,
  type Stage,
  WAIT_MS,
} from "./harness/stage.ts";

let stage: Stage;
let firefox: Firefox;
beforeAll(async () => {
  [stage, firefox] = await Promise.all([openStage(), openFirefox()]);
}, 180_000);
afterAll(() => Promise.all([firefox?.close(), stage?.close()]));

const SCRIPTS: LivekitPackage[] = ["livekit-client", "livekit-client-two-connections"];
const EACH = SCRIPTS.flatMap((script) =>
  (["Chromium", "Firefox"] as const).map((browser) => [script, browser] as const),
);

/** What happens from now on counts. */
const forget = (page: Scripted) =>
  page.evaluate(() => {
    for (const element of document.querySelectorAll("video")) element.id = "";
    window.events.length = 0;
  }, undefined);

type Named = { identity: string };
type Source = { source: string };

/** Events of a room that is joined, beside those that `joinLivekit` notes. */
const noteMore = (page: Scripted) =>
  page.evaluate(() => {
    const { RoomEvent } = window.LivekitClient;
    const note = (event: string) => void window.events.push(event);
    window.livekit
      .on(RoomEvent.TrackSubscriptionPermissionChanged, (pub: Source, status: string, { identity }: Named) =>
        note(`${identity} ${pub.source} ${status}`),
      )
      .on(RoomEvent.RecordingStatusChanged, (isRecording: boolean) => note(`recording ${isRecording}`));
  }, undefined);

async function pairIn(room: string, script: LivekitPackage, browser: BrowserName) {
  const pages = [await openPage(stage, firefox, browser, script), await openPage(stage, firefox, browser, script)];
  const [ann, ben] = pages.map(({ page }) => page) as [Scripted, Scripted];
  await joinLivekit(ann, stage.wsUrl, await stage.token(room, "ann"), { publish: false });
  await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"), { publish: false });
  await Promise.all([noteMore(ann), noteMore(ben)]);
  await publishCanvas(ann);
  await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
  return { ann, ben, pages };
}

const closing = async (pages: OpenPage[]) => {
  for (const { close } of pages) await close();
};

/** Fifteen more frames of ann's video are shown. */
const goesOn = async (page: Scripted) => sees(page, "ann", "camera", (await shownFrames(page, "ann")) + 15);

for (const [script, browser] of EACH) {
  test(
    `${script} in ${browser}: what a subscriber and a publisher choose for a track, devices, permissions and recording`,
    async () => {
      const room = `chosen-${script}-${browser}`;
      const { ann, ben, pages } = await pairIn(room, script, browser);
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
      /** As many frames a second arrive as are sent, which on a busy machine are fewer than the twenty that are painted. */
      const allArrive = async () => {
        for (const deadline = Date.now() + WAIT_MS; ; await Bun.sleep(300)) {
          const [sent, received] = await Promise.all([
            ann.evaluate(async () => {
              const { sender } = window.livekit.localParticipant.getTrackPublication("camera").track;
              const stats: { framesPerSecond?: number }[] = [...(await sender.getStats()).values()];
              return Math.max(...stats.map(({ framesPerSecond = 0 }) => framesPerSecond));
            }, undefined),
            ben.evaluate(async () => {
              const { track } = window.livekit.remoteParticipants.get("ann").getTrackPublication("camera");
              const stats = [...(await track.receiver.getStats()).values()];
              return (stats.find(({ type }) => type === "inbound-rtp")?.framesPerSecond ?? 0) as number;
            }, undefined),
          ]);
          if (received > 0 && received > 0.7 * sent) return;
          if (Date.now() > deadline) throw new Error(`of ${sent} frames a second arrive ${received}`);
        }
      };
      await choose("setEnabled", false);
      await arrives(0, 0, 360);
      await choose("setEnabled", true);
      await arrives(1, 60, 360);
      await choose("setVideoDimensions", { width: 160, height: 90 });
      await arrives(1, 60, 180);
      await choose("setVideoDimensions", { width: 640, height: 360 });
      await choose("setVideoFPS", 5);
      await arrives(1, 8, 360);
      await choose("setVideoFPS", 60);
      await allArrive();

      await ann.evaluate(
        () => window.livekit.localParticipant.getTrackPublication("camera").track.pauseUpstream(),
        undefined,
      );
      await happened(ben, "muted ann camera");
      await ann.evaluate(
        () => window.livekit.localParticipant.getTrackPublication("camera").track.resumeUpstream(),
        undefined,
      );
      await happened(ben, "unmuted ann camera");
      await ann.evaluate(async () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
        const context = canvas.getContext("2d") as CanvasRenderingContext2D;
        setInterval(() => context.fillRect(0, 0, Math.random() * 640, 360), 50);
        const [video] = canvas.captureStream(20).getVideoTracks();
        await window.livekit.localParticipant.getTrackPublication("camera").track.replaceTrack(video);
      }, undefined);
      await goesOn(ben);
      const switched = await ann.evaluate(async () => {
        const { livekit, LivekitClient } = window;
        const devices = await LivekitClient.Room.getLocalDevices("audioinput");
        const other = devices.find(({ deviceId }: MediaDeviceInfo) => !["default", ""].includes(deviceId));
        await livekit.switchActiveDevice("audioinput", other.deviceId);
        return livekit.getActiveDevice("audioinput") === other.deviceId;
      }, undefined);
      expect(switched).toBe(true);
      await forget(ben);
      await ann.evaluate(() => window.livekit.localParticipant.republishAllTracks(), undefined);
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
      expect(await ben.evaluate(() => window.livekit.isRecording as boolean, undefined)).toBe(true);
      recorder.send({ case: "leave", value: {} as never });
      await happened(ben, "recording false");
      if (script === "livekit-client") {
        const outcome = await ann.evaluate(
          () =>
            window.livekit.localParticipant.publishDataTrack({ name: "d" }).then(
              () => "done",
              (error: Error) => error.message,
            ),
          undefined,
        );
        expect(outcome).toContain("not served here");
      }
      await closing(pages);
    },
    5 * WAIT_MS,
  );

  test(
    `${script} in ${browser}: publishing before the connection, a wrong token, and the reasons of every end`,
    async () => {
      const room = `ended-${script}-${browser}`;
      const pages = await Promise.all([0, 1, 2, 3].map(() => openPage(stage, firefox, browser, script)));
      const [ann, ben, cas, twin] = pages.map(({ page }) => page) as [Scripted, Scripted, Scripted, Scripted];
      const error = await ann.evaluate(
        (url) =>
          new window.LivekitClient.Room().connect(url, "nonsense").then(
            () => null,
            ({ name, message }: Error) => `${name}: ${message}`,
          ),
        stage.wsUrl,
      );
      expect(error).toMatch(/^ConnectionError: .*the token is no JWT/);
      const join = async (page: Scripted, identity: string) =>
        joinLivekit(page, stage.wsUrl, await stage.token(room, identity), { publish: false });
      await join(cas, "cas");
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
      // A track is listed from its first packet on.
      await hears(cas, "early");
      const { tracks } = await stage.rooms.getParticipant(room, "early");
      expect(tracks).toHaveLength(1);

      await join(ben, "ben");
      await join(twin, "ben");
      await happened(ben, "disconnected 2");
      await stage.rooms.removeParticipant(room, "ben");
      await happened(twin, "disconnected 4");
      await join(ben, "dora");
      await ben.evaluate(() => window.livekit.disconnect(), undefined);
      await happened(ben, "disconnected 1");
      await stage.rooms.deleteRoom(room);
      await happened(cas, "disconnected 5");
      await closing(pages);
    },
    5 * WAIT_MS,
  );

  test(
    `${script} in ${browser}: camera, microphone and screen, what the server mutes, forbids and records, and what nobody watches`,
    async () => {
      const room = `devices-${script}-${browser}`;
      const pages = await Promise.all([0, 1, 2].map(() => openPage(stage, firefox, browser, script)));
      const [ann, ben, cas] = pages.map(({ page }) => page) as [Scripted, Scripted, Scripted];
      const join = async (page: Scripted, identity: string, options: object) =>
        joinLivekit(page, stage.wsUrl, await stage.token(room, identity), { publish: false, ...options });
      await join(ben, "ben", { room: { adaptiveStream: { pixelDensity: 1 } } });
      await join(ann, "ann", { publish: true, room: { dynacast: true } });
      await join(cas, "cas", { connect: { autoSubscribe: false } });
      await noteMore(ben);
      await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
      await ben.evaluate(() => window.livekit.remoteParticipants.get("ann").waitUntilActive(), undefined);

      /** The sizes in which ann's camera is sent. */
      const sends = (...rids: string[]) =>
        ann.waitForFunction(
          (rids) => {
            const { sender } = window.livekit.localParticipant.getTrackPublication("camera").track;
            const { encodings } = sender.getParameters() as RTCRtpSendParameters;
            const active = encodings.flatMap(({ rid, active }) => (active ? [rid] : []));
            return active.sort().join() === rids.sort().join();
          },
          rids,
          { timeout: WAIT_MS },
        );
      const style = (css: string) =>
        ben.evaluate((css) => {
          (document.getElementById("ann-camera") as HTMLElement).style.cssText = css;
        }, css);
      await style("display:none");
      await sends();
      await style("width:160px;height:90px");
      await sends("q");
      await goesOn(ben);
      expect(await cas.evaluate(() => document.querySelectorAll("video, audio").length, undefined)).toBe(0);
      await cas.evaluate(
        () => window.livekit.remoteParticipants.get("ann").getTrackPublication("camera").setSubscribed(true),
        undefined,
      );
      await sees(cas, "ann");
      /** The height of the video that cas gets. */
      const getsLines = (least: number, most: number) =>
        cas.waitForFunction(
          async ([least = 0, most = 0]) => {
            const { track } = window.livekit.remoteParticipants.get("ann").getTrackPublication("camera");
            const stats = [...(await track.receiver.getStats()).values()];
            const { frameHeight = 0 } = stats.find(({ type }) => type === "inbound-rtp") ?? {};
            return frameHeight >= least && frameHeight <= most;
          },
          [least, most],
          { timeout: WAIT_MS, polling: 300 },
        );
      await getsLines(240, 1_080);
      await cas.evaluate(() => {
        const { VideoQuality } = window.LivekitClient;
        window.livekit.remoteParticipants.get("ann").getTrackPublication("camera").setVideoQuality(VideoQuality.LOW);
      }, undefined);
      await Promise.all([getsLines(90, 200), sends("q")]);

      const enable = (device: "Camera" | "ScreenShare", enabled: boolean) =>
        ann.evaluate(
          async ({ device, enabled }) => {
            // A canvas stands for the screen, because choosing one needs a click.
            navigator.mediaDevices.getDisplayMedia = async () => {
              const canvas = document.createElement("canvas");
              const context = canvas.getContext("2d") as CanvasRenderingContext2D;
              setInterval(() => context.fillRect(0, 0, Math.random() * 300, 150), 50);
              return canvas.captureStream(20);
            };
            await window.livekit.localParticipant[`set${device}Enabled`](enabled);
          },
          { device, enabled },
        );
      await enable("Camera", false);
      await happened(ben, "muted ann camera");
      await enable("Camera", true);
      await happened(ben, "unmuted ann camera");
      await enable("ScreenShare", true);
      await sees(ben, "ann", "screen_share");
      await enable("ScreenShare", false);
      await isGone(ben, "ann-screen_share");

      const rooms = await stage.stoa.rooms.list();
      const { id } = await stage.stoa.recordings.start(rooms.find(({ name }) => name === room)?.id ?? "");
      await happened(ben, "recording true");
      await stage.stoa.recordings.stop(id);
      await happened(ben, "recording false");

      const { tracks } = await stage.rooms.getParticipant(room, "ann");
      const microphone = (tracks as { sid: string; type: number }[]).find(({ type }) => type === 0)?.sid;
      await stage.rooms.mutePublishedTrack(room, "ann", microphone, true);
      await happened(ben, "muted ann microphone");
      await ann.waitForFunction(() => !window.livekit.localParticipant.isMicrophoneEnabled, undefined, {
        timeout: WAIT_MS,
      });
      const permission = { canPublish: false, canSubscribe: true, canPublishData: true };
      await stage.rooms.updateParticipant(room, "ann", { permission });
      await Promise.all([isGone(ben, "ann-camera"), isGone(cas, "ann-camera")]);
      await closing(pages);
    },
    5 * WAIT_MS,
  );

  test(
    `${script} in ${browser}: encrypted video, audio and data arrive with the same key, and nothing does with another`,
    async () => {
      const room = `sealed-${script}-${browser}`;
      const pages = await Promise.all([0, 1, 2].map(() => openPage(stage, firefox, browser, script)));
      const [ann, ben, eve] = pages.map(({ page }) => page) as [Scripted, Scripted, Scripted];
      const join = async (page: Scripted, identity: string, key: string) =>
        joinLivekit(page, stage.wsUrl, await stage.token(room, identity), { publish: false, key });
      await join(ann, "ann", "ours");
      await join(ben, "ben", "ours");
      await join(eve, "eve", "another");
      await publishCanvas(ann);
      await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
      await ann.evaluate(
        () =>
          window.livekit.localParticipant.publishData(new TextEncoder().encode("sealed"), {
            reliable: true,
            topic: "t",
          }),
        undefined,
      );
      await got(ben, "ann t sealed");
      expect(await ben.evaluate(() => window.livekit.remoteParticipants.get("ann").isEncrypted, undefined)).toBe(true);
      // The participant was sent everything, and could decrypt nothing.
      await eve.waitForFunction(
        async () => {
          const { track } = window.livekit.remoteParticipants.get("ann").getTrackPublication("camera");
          const stats = [...((await track?.receiver?.getStats())?.values() ?? [])];
          return (stats.find(({ type }) => type === "inbound-rtp")?.packetsReceived ?? 0) > 50;
        },
        undefined,
        { timeout: WAIT_MS },
      );
      expect(await shownFrames(eve, "ann")).toBe(0);
      expect(await eve.evaluate(() => window.texts, undefined)).toEqual([]);
      await closing(pages);
    },
    4 * WAIT_MS,
  );
}
