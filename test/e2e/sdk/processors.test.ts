// browser: windows
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type * as Processors from "../../../web/sdk/processors/index.ts";
import { joinRoom, waitForFrames } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

declare global {
  interface Window {
    processors: typeof Processors;
  }
}

/** Software rendering takes hundreds of milliseconds a frame, which is too slow for a user and not for a test. */
const PATIENT = 60_000;

let stage: Stage;
let anna: SitePage;
let ben: SitePage;
beforeAll(async () => {
  stage = await openStage();
  const { id } = await stage.stoa.rooms.create({ name: "processors" });
  [anna, ben] = await Promise.all([stage.page(), stage.page()]);
  await joinRoom(anna, await stage.rtc(id, "anna"));
  await joinRoom(ben, await stage.rtc(id, "ben"));
  await ben.evaluate(async (server) => {
    window.processors = await import(`${server}/processors.js`);
  }, stage.server.url);
}, 180_000);
afterAll(() => stage?.close());

/** How much quieter noise is after its suppression, in decibels, measured for a second once it has settled. */
function suppressedNoise(maxShare: number): Promise<{ quieterDb: number; disabled: boolean }> {
  return ben.evaluate(
    async ({ serverUrl, maxShare }) => {
      const audio = new AudioContext({ sampleRate: 48_000 });
      const noise = audio.createBuffer(1, 4 * 48_000, 48_000);
      let rumble = 0;
      const samples = noise.getChannelData(0);
      for (let at = 0; at < samples.length; at++) {
        rumble = 0.98 * rumble + 0.02 * (Math.random() * 2 - 1);
        samples[at] = rumble + 0.02 * (Math.random() * 2 - 1);
      }
      const fan = new AudioBufferSourceNode(audio, { buffer: noise, loop: true });
      const microphone = audio.createMediaStreamDestination();
      fan.connect(microphone);
      fan.start();
      const [track] = microphone.stream.getAudioTracks() as [MediaStreamTrack];
      const disabled = Promise.withResolvers<boolean>();
      const processor = window.processors.noiseSuppression({ maxShare, onDisabled: () => disabled.resolve(true) });
      const processed = await processor.init(track, { serverUrl });
      const meter = (input: MediaStreamTrack) => {
        const analyser = new AnalyserNode(audio, { fftSize: 32_768 });
        audio.createMediaStreamSource(new MediaStream([input])).connect(analyser);
        return () => {
          const heard = new Float32Array(analyser.fftSize);
          analyser.getFloatTimeDomainData(heard);
          return heard.reduce((sum, sample) => sum + sample * sample, 0);
        };
      };
      const [before, after] = [meter(track), meter(processed)];
      const settled = new Promise<boolean>((resolve) =>
        setTimeout(() => resolve(false), maxShare === 0 ? 60_000 : 4_000),
      );
      const wasDisabled = await Promise.race([settled, disabled.promise]);
      // The meters hold two thirds of a second, which must be of the time after the decision.
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      const quieterDb = 10 * Math.log10(before() / (after() + 1e-12));
      processor.destroy();
      await audio.close();
      return { quieterDb, disabled: wasDisabled };
    },
    { serverUrl: stage.server.url, maxShare },
  );
}

describe("noise suppression", () => {
  test("makes the noise of a fan at least 10 dB quieter", async () => {
    const { quieterDb, disabled } = await suppressedNoise(1);
    expect(disabled).toBe(false);
    expect(quieterDb).toBeGreaterThan(10);
  }, 60_000);

  test("is switched off on a computer that is too slow, and the microphone is sent as it is", async () => {
    const { quieterDb, disabled } = await suppressedNoise(0);
    expect(disabled).toBe(true);
    expect(Math.abs(quieterDb)).toBeLessThan(3);
  }, 90_000);
});

describe("another background", () => {
  test("is refused on a computer that is too slow, and the camera is not left open", async () => {
    const refused = await ben.evaluate(async () => {
      const processor = window.processors.backgroundBlur({ maxFrameMs: 0.001 });
      const error = await window.room.localParticipant
        .enableCamera({ height: 180, width: 320, processor })
        .catch((error) => error);
      return { code: error.code, published: window.room.localParticipant.tracks.size };
    });
    expect(refused).toEqual({ code: "TOO_SLOW", published: 0 });
  }, 120_000);

  test("is sent to the others: where no person is, they see the image", async () => {
    await ben.evaluate(async (maxFrameMs) => {
      const green = new OffscreenCanvas(160, 90);
      const context = green.getContext("2d") as OffscreenCanvasRenderingContext2D;
      context.fillStyle = "rgb(0 200 0)";
      context.fillRect(0, 0, 160, 90);
      const processor = window.processors.backgroundImage(green.transferToImageBitmap(), { maxFrameMs });
      await window.room.localParticipant.enableCamera({ height: 180, width: 320, processor });
    }, PATIENT);
    await waitForFrames(anna, "ben-camera");
    const corner = await anna.evaluate(() => {
      const video = document.getElementById("ben-camera") as HTMLVideoElement;
      const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
      const context = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
      context.drawImage(video, 0, 0);
      return [...context.getImageData(4, 4, 1, 1).data];
    });
    const [red = 0, green = 0, blue = 0] = corner;
    expect(green).toBeGreaterThan(100);
    expect(red + blue).toBeLessThan(120);
  }, 180_000);

  test("can be blurred and taken away during the call", async () => {
    const labels = await ben.evaluate(async (maxFrameMs) => {
      const camera = window.room.localParticipant.track("camera");
      await camera?.setProcessor(window.processors.backgroundBlur({ maxFrameMs }));
      const isProcessed = camera?.mediaStreamTrack !== camera?.sourceTrack;
      await camera?.setProcessor(null);
      return {
        isProcessed,
        isPlain: camera?.mediaStreamTrack === camera?.sourceTrack,
        state: camera?.sourceTrack.readyState,
      };
    }, PATIENT);
    expect(labels).toEqual({ isProcessed: true, isPlain: true, state: "live" });
    expect(ben.errors).toEqual([]);
  }, 180_000);
});
