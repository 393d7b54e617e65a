import { afterAll, beforeAll, test } from "bun:test";
import type { Page } from "playwright-core";
import { joinLivekit, sees } from "./harness/livekit-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const THREE_SIZES = { resolution: { width: 1280, height: 720, frameRate: 30 } };

/** The sizes that this page's camera is sent in, from the smallest: `q`, `h` and `f`. */
const sends = (page: Page, ...rids: string[]) =>
  page.waitForFunction(
    (wanted) => {
      const { sender } = window.livekit.localParticipant.getTrackPublication("camera").track;
      const { encodings } = sender.getParameters() as RTCRtpSendParameters;
      return String(encodings.flatMap(({ rid, active }) => (active ? [rid] : []))) === String(wanted);
    },
    rids,
    { timeout: WAIT_MS },
  );

/** A participant's video has this height in this page, and frames keep coming. */
async function showsLines(page: Page, least: number, most: number): Promise<void> {
  await page.waitForFunction(
    ([least = 0, most = 0]) => {
      const { videoHeight } = document.getElementById("ann-camera") as HTMLVideoElement;
      return videoHeight >= least && videoHeight <= most;
    },
    [least, most],
    { timeout: WAIT_MS },
  );
  await goesOn(page);
}

const framesIn = (page: Page) =>
  page.evaluate(
    () => (document.getElementById("ann-camera") as HTMLVideoElement).getVideoPlaybackQuality().totalVideoFrames,
  );

const goesOn = async (page: Page) => sees(page, "ann", "camera", (await framesIn(page)) + 10);

const style = (page: Page, css: string) =>
  page.evaluate((css) => {
    const element = document.getElementById("ann-camera");
    if (element) element.style.cssText = css;
  }, css);

// At once: what takes long is that encoders adapt.
for (const script of ["livekit-client", "livekit-client-two-connections"] satisfies LivekitPackage[]) {
  test.concurrent(
    `${script}: a tile's size decides the sent layer, and unwatched layers are not published`,
    async () => {
      const room = `tiles-${script}`;
      const [ann, ben] = [await stage.page(script), await stage.page(script)];
      await joinLivekit(ann, stage.wsUrl, await stage.token(room, "ann"), {
        room: { dynacast: true, videoCaptureDefaults: THREE_SIZES },
      });
      await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"), {
        publish: false,
        room: { adaptiveStream: { pixelDensity: 1 } },
      });
      await sees(ben, "ann");

      await style(ben, "width:160px;height:90px");
      await showsLines(ben, 90, 180);
      await sends(ann, "q");
      await style(ben, "width:640px;height:360px");
      await showsLines(ben, 270, 360);
      await sends(ann, "q", "h");

      // A tile out of view gets no video; when it is scrolled back into view, the video continues.
      await style(ben, "display:none");
      await sends(ann);
      await style(ben, "width:160px;height:90px");
      await sends(ann, "q");
      await goesOn(ben);

      const publication = (wanted: boolean) =>
        ben.evaluate(
          (wanted) => window.livekit.remoteParticipants.get("ann").getTrackPublication("camera").setSubscribed(wanted),
          wanted,
        );
      await publication(false);
      await sends(ann);
      await publication(true);
      await ben.waitForFunction(() => document.getElementById("ann-camera") !== null);
      await style(ben, "width:640px;height:360px");
      await sends(ann, "q", "h");
      await sees(ben, "ann");

      // A client that chooses a quality gets it, whatever the tile's size, and others keep theirs.
      const cas = await stage.page(script);
      await joinLivekit(cas, stage.wsUrl, await stage.token(room, "cas"), { publish: false });
      await sees(cas, "ann");
      await cas.evaluate(() => {
        const { VideoQuality } = window.LivekitClient;
        window.livekit.remoteParticipants.get("ann").getTrackPublication("camera").setVideoQuality(VideoQuality.LOW);
      });
      await showsLines(cas, 90, 180);
      await showsLines(ben, 270, 360);
      for (const page of [ann, ben, cas]) await page.context().close();
    },
    5 * WAIT_MS,
  );
}
