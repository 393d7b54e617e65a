import { afterAll, beforeAll, expect, test } from "bun:test";
import { join, type Participant, tone, type VideoEvent } from "../../../src/rtc-client/participant/participant.ts";
import type { EncodedVideo } from "../../../src/rtc-client/participant/participant-events.ts";
import type * as Sdk from "../../../web/sdk/index.ts";
import { tapRoom } from "../../rtc-client/tap.ts";
import { openStage, type Stage } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const PASSPHRASE = "correct horse";
const FRAMES = 25;

const tap = (roomId: string, onVideo: (frame: EncodedVideo) => void, onAudio: (samples: Int16Array) => void) =>
  tapRoom(stage.stoa, stage.server.url, roomId, { onVideo: (_, frame) => onVideo(frame), onAudio });

const WIDTH = 64;
const HEIGHT = 36;
const DEMUXERS: Record<string, string> = { VP8: "VP80", VP9: "VP90", AV1: "AV01" };

/** The frames that ffmpeg decodes, as small grey images. */
async function decoded(codec: string, frames: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const input = codec === "H264" ? Buffer.concat(frames.map(annexB)) : ivf(DEMUXERS[codec] ?? "", frames);
  const format = codec === "H264" ? "h264" : "ivf";
  const scaled = `-vf scale=${WIDTH}:${HEIGHT} -pix_fmt gray -f rawvideo pipe:1`;
  const child = Bun.spawn(["ffmpeg", "-loglevel", "quiet", "-f", format, "-i", "pipe:0", ...scaled.split(" ")], {
    stdin: input,
    stdout: "pipe",
    stderr: "ignore",
  });
  const output = new Uint8Array(await new Response(child.stdout).arrayBuffer());
  const size = WIDTH * HEIGHT;
  return Array.from({ length: Math.floor(output.length / size) }, (_, at) => output.slice(at * size, (at + 1) * size));
}

function annexB(frame: Uint8Array): Buffer {
  const units: Buffer[] = [];
  for (let at = 0; at + 4 <= frame.length; ) {
    const length = Buffer.from(frame).readUInt32BE(at);
    units.push(Buffer.from([0, 0, 0, 1]), Buffer.from(frame.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return Buffer.concat(units);
}

function ivf(fourcc: string, frames: readonly Uint8Array[]): Buffer {
  const head = Buffer.alloc(32);
  head.write("DKIF");
  head.writeUInt16LE(32, 6);
  head.write(fourcc, 8);
  head.writeUInt16LE(320, 12);
  head.writeUInt16LE(180, 14);
  head.writeUInt32LE(30, 16);
  head.writeUInt32LE(1, 20);
  const parts = frames.flatMap((frame, at) => {
    const header = Buffer.alloc(12);
    header.writeUInt32LE(frame.length, 0);
    header.writeUInt32LE(at, 4);
    return [header, Buffer.from(frame)];
  });
  return Buffer.concat([head, ...parts]);
}

/** 1 for the same image at any brightness, about 0 for another one or a plain area. */
function likeness(one: Uint8Array, other: Uint8Array): number {
  const mean = (image: Uint8Array) => image.reduce((sum, value) => sum + value, 0) / image.length;
  const [a, b] = [mean(one), mean(other)];
  let [both, first, second] = [0, 0, 0];
  for (const [at, value] of one.entries()) {
    const [x, y] = [value - a, (other[at] ?? 0) - b];
    both += x * y;
    first += x * x;
    second += y * y;
  }
  return first * second === 0 ? 0 : both / Math.sqrt(first * second);
}

const best = (images: readonly Uint8Array[], reference: Uint8Array) =>
  images.reduce((most, image) => Math.max(most, Math.abs(likeness(image, reference))), 0);

/** Publishes a still image of large areas, which every decoder shows alike. */
async function publishAreas(roomId: string, codec: Sdk.VideoCodec) {
  const page = await stage.page();
  const { endpoint, token } = await stage.rtc(roomId, "ada");
  await page.evaluate(
    async ({ endpoint, token, url, codec, passphrase }) => {
      const sdk = (await import(`${url}/sdk.js`)) as typeof Sdk;
      const room = await sdk.connect(endpoint, token, { encryption: { passphrase } });
      const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
      const context = canvas.getContext("2d");
      setInterval(() => {
        for (const [at, grey] of [230, 20, 120, 250, 60, 180].entries()) {
          if (context) context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
          context?.fillRect((at % 3) * 107, at < 3 ? 0 : 90, 107, 90);
        }
        // Something moves, so that every frame has content.
        context?.fillRect(Math.random() * 300, Math.random() * 160, 8, 8);
      }, 80);
      const [track] = canvas.captureStream(12).getVideoTracks();
      if (track) await room.localParticipant.publish(track, { codec, source: "camera", simulcast: false });
    },
    { endpoint, token, url: stage.server.url, codec, passphrase: PASSPHRASE },
  );
  return page;
}

test.each(["VP8", "H264", "VP9", "AV1"] as const)(
  "[encryption] the server cannot decode a frame of %s, and a participant with the key without a browser can",
  async (codec) => {
    const room = await stage.stoa.rooms.create({ name: `tapped-${codec}`, encrypted: true });
    const page = await publishAreas(room.id, codec);
    const { endpoint, token } = await stage.stoa.rtcTokens.mint(room.id, { participantIdentity: "ben" });
    const ben: Participant = await join(endpoint, token, { encryption: { passphrase: PASSPHRASE } });
    const known: VideoEvent[] = [];
    const tapped: EncodedVideo[] = [];
    ben.on("video", (frame) => known.push(frame));
    const stop = await tap(
      room.id,
      (frame) => tapped.push(frame),
      () => {},
    );
    const until = Date.now() + 60_000;
    while ((known.length < FRAMES || tapped.length < FRAMES) && Date.now() < until) await Bun.sleep(100);
    await stop();
    await ben.close();
    await page.context().close();
    expect([known[0]?.codec, known[0]?.keyframe, tapped[0]?.keyframe]).toEqual([codec, true, true]);

    const readable = await decoded(
      codec,
      known.map(({ data }) => data),
    );
    expect(readable.length).toBeGreaterThan(FRAMES / 2);
    const reference = readable.at(-1) as Uint8Array;
    expect(best(readable.slice(-5), reference)).toBeGreaterThan(0.95);
    // Some decoders make noise of random bytes, but none makes the image of it.
    const noise = await decoded(
      codec,
      tapped.map(({ data }) => data),
    );
    console.log(
      `      ${codec}: ${readable.length} frames with the key; ${noise.length} images of noise without, likeness ${best(noise, reference).toFixed(2)}`,
    );
    expect(best(noise, reference)).toBeLessThan(0.5);
  },
  120_000,
);

/** The share of the energy at one frequency. */
function purity(samples: readonly number[], hz: number): number {
  let [real, imaginary, energy] = [0, 0, 0];
  for (const [at, sample] of samples.entries()) {
    const phase = (2 * Math.PI * hz * at) / 48_000;
    real += sample * Math.cos(phase);
    imaginary += sample * Math.sin(phase);
    energy += sample * sample;
  }
  return energy === 0 ? 0 : (2 * (real * real + imaginary * imaginary)) / (energy * samples.length);
}

test("[encryption] the server hears noise where participants with the key hear a tone", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "tapped-opus", encrypted: true });
  const enter = async (participantIdentity: string) => {
    const { endpoint, token } = await stage.stoa.rtcTokens.mint(id, {
      participantIdentity,
      permissions: { publish: true },
    });
    return join(endpoint, token, { encryption: { passphrase: PASSPHRASE } });
  };
  const [ada, ben] = [await enter("ada"), await enter("ben")];
  await ada.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
  const [heard, tapped]: [number[], number[]] = [[], []];
  ben.on("audio", ({ samples }) => heard.push(...samples));
  const stop = await tap(
    id,
    () => {},
    (samples) => tapped.push(...samples),
  );
  const until = Date.now() + 30_000;
  while ((heard.length < 96_000 || tapped.length < 48_000) && Date.now() < until) await Bun.sleep(50);
  await stop();
  for (const one of [ada, ben]) await one.close();
  const [clear, noise] = [purity(heard.slice(-24_000), 440), purity(tapped.slice(-24_000), 440)];
  console.log(
    `      Opus: ${(100 * clear).toFixed(0)} % of the energy in the tone with the key, ${(100 * noise).toFixed(1)} % without`,
  );
  expect(clear).toBeGreaterThan(0.8);
  expect(noise).toBeLessThan(0.1);
}, 120_000);
