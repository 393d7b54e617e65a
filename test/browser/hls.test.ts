import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { joinRoom } from "./sdk/page-api.ts";
import { openStage, type SitePage, type Stage } from "./sdk/stage.ts";

const HLS_JS = join(import.meta.dir, "../../node_modules/hls.js/dist/hls.min.js");

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(async () => {
  await stage?.close();
});

/** Sends H.264 whose brightness says when it was drawn, in tenths of seconds modulo 25.6, and a tone. */
const publish = (page: SitePage) =>
  page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
    const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
    setInterval(() => {
      const tenth = Math.floor(Date.now() / 100) % 256;
      draw.fillStyle = `rgb(${tenth} ${tenth} ${tenth})`;
      draw.fillRect(0, 0, 320, 180);
    }, 40);
    const context = new AudioContext();
    await context.resume();
    const destination = context.createMediaStreamDestination();
    const tone = new OscillatorNode(context, { frequency: 440 });
    tone.connect(destination);
    tone.start();
    const [picture] = canvas.captureStream(25).getVideoTracks();
    const [sound] = destination.stream.getAudioTracks();
    const { localParticipant } = window.room;
    const options = { source: "camera", codec: "H264", simulcast: false } as const;
    await localParticipant.publish(picture as MediaStreamTrack, options);
    await localParticipant.publish(sound as MediaStreamTrack, { source: "microphone" });
  });

type Player = { currentTime: number; seekable: number; errors: string[]; latency: number };

test("[18] hls.js plays a live stream close to its edge, picture and sound, and rewinds to its beginning", async () => {
  const { stoa } = stage;
  const stream = await stoa.liveStreams.create({ title: "show", hostIdentity: "ada", record: true });
  const host = await stage.page();
  await joinRoom(host, await stage.rtc(stream.roomId, "ada"));
  await publish(host);
  await stoa.liveStreams.start(stream.id);
  const viewer = await stoa.liveStreams.mintViewerToken(stream.id, { identity: "grace" });
  const url = `${stage.server.url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${viewer.rtc.token}`;
  for (;;) {
    const answer = await fetch(url);
    if (answer.ok) break;
    expect(((await answer.json()) as { code: string }).code).toBe("SVC_HLS_UNAVAILABLE");
    await Bun.sleep(250);
  }

  const page = await stage.page();
  await page.addScriptTag({ path: HLS_JS });
  await page.evaluate((source) => {
    const made = document.createElement("video");
    made.muted = true;
    document.body.append(made);
    const errors: string[] = [];
    // biome-ignore lint/suspicious/noExplicitAny: the page has it by a script of its own
    const { Hls } = window as any;
    const hls = new Hls({ lowLatencyMode: true });
    hls.on(Hls.Events.ERROR, (_: unknown, { fatal, details }: { fatal: boolean; details: string }) => {
      if (fatal) errors.push(details);
    });
    hls.loadSource(source);
    hls.attachMedia(made);
    Object.assign(window, { hls, hlsErrors: errors });
    void made.play();
  }, url);
  const player = () =>
    page.evaluate(() => {
      const made = document.querySelector("video") as HTMLVideoElement;
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const { hls, hlsErrors } = window as any;
      const seekable = made.seekable.length > 0 ? made.seekable.end(0) - made.seekable.start(0) : 0;
      return { currentTime: made.currentTime, seekable, errors: hlsErrors, latency: hls.latency } as Player;
    });
  /** How long ago the picture that is shown was drawn. */
  const delayMs = () =>
    page.evaluate(() => {
      const made = document.querySelector("video") as HTMLVideoElement;
      const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
      const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
      draw.drawImage(made, 0, 0, 16, 16);
      const [tenth = 0] = draw.getImageData(8, 8, 1, 1).data;
      return (((Math.floor(Date.now() / 100) % 256) - tenth + 256) % 256) * 100;
    });

  await page.waitForFunction(() => (document.querySelector("video") as HTMLVideoElement).currentTime > 6, undefined, {
    timeout: 60_000,
  });
  const delays: number[] = [];
  for (let look = 0; look < 5; look++) {
    delays.push(await delayMs());
    await Bun.sleep(300);
  }
  console.log(`HLS delay ${delays.join(" ")} ms, by hls.js ${(await player()).latency.toFixed(1)} s`);
  expect((await player()).errors).toEqual([]);
  const decoded = await page.evaluate(() => {
    const made = document.querySelector("video") as HTMLVideoElement & { webkitAudioDecodedByteCount: number };
    return { width: made.videoWidth, sound: made.webkitAudioDecodedByteCount };
  });
  expect(decoded.width).toBe(320);
  expect(decoded.sound).toBeGreaterThan(0);

  // Back to the beginning: it is all there, and plays on.
  await page.evaluate(() => {
    const made = document.querySelector("video") as HTMLVideoElement;
    made.currentTime = made.seekable.start(0) + 0.1;
  });
  await page.waitForFunction(
    () => {
      const made = document.querySelector("video") as HTMLVideoElement;
      return !made.seeking && made.currentTime > 0.5 && made.currentTime < made.seekable.end(0) - 4;
    },
    undefined,
    { timeout: 60_000 },
  );
  expect((await player()).errors).toEqual([]);
  await stoa.liveStreams.end(stream.id);
  await page.waitForFunction(() => Number.isFinite((document.querySelector("video") as HTMLVideoElement).duration));
  expect((await player()).errors).toEqual([]);
}, 180_000);
