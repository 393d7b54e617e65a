/** Participants who send one colour and one tone each, and what a composition made of them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  join as joinRoom,
  type Participant,
  tone,
  type VideoFrame,
} from "../../../../src/rtc-client/participant/participant.ts";
import { openVideo } from "../../../../src/rtc-client/participant/video-source.ts";
import { media } from "../../../features/recordings/ffmpeg.ts";
import type { Stage } from "./stage.ts";

const SECOND_MS = 1_000;

/** One second of a colour, again and again. */
async function* endless(frames: VideoFrame[]): AsyncGenerator<VideoFrame, void, void> {
  for (let second = 0; ; second++)
    for (const frame of frames) yield { ...frame, timestampMs: frame.timestampMs + second * SECOND_MS };
}

export async function colour(name: string): Promise<VideoFrame[]> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-colour-"));
  const path = join(folder, "one.ivf");
  const source = `color=c=${name}:s=160x90:r=10:d=1`;
  media("ffmpeg", "-f", "lavfi", "-i", source, "-c:v", "libvpx", "-deadline", "realtime", "-f", "ivf", path);
  const frames = [...((await openVideo(path)) as VideoFrame[])];
  rmSync(folder, { recursive: true });
  return frames;
}

export async function sender(
  { stoa }: Pick<Stage, "stoa">,
  room: string,
  identity: string,
  frames: VideoFrame[] | null,
  hertz: number,
): Promise<Participant> {
  const permissions = { publish: true, subscribe: true, publishData: true };
  const { endpoint, token } = await stoa.rtcTokens.mint(room, { participantIdentity: identity, permissions });
  const participant = await joinRoom(endpoint, token, { autoSubscribe: false });
  if (frames) await participant.publishVideo(endless(frames));
  await participant.publishAudio(tone({ hz: hertz }));
  return participant;
}

/** The colours of a video at a time, at points given as shares of its width and height: red, green, blue. */
export function coloursAt(path: string, seconds: number, points: readonly (readonly [number, number])[]): string[] {
  const size = 32;
  const scale = ["-vf", `scale=${size}:${size}`, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"];
  const { stdout } = Bun.spawnSync(["ffmpeg", "-v", "error", "-ss", String(seconds), "-i", path, ...scale]);
  return points.map(([x, y]) => {
    const at = 3 * (Math.floor(y * size) * size + Math.floor(x * size));
    return nameOf(stdout[at] ?? 0, stdout[at + 1] ?? 0, stdout[at + 2] ?? 0);
  });
}

function nameOf(red: number, green: number, blue: number): string {
  const names = [red > 150 && "red", green > 150 && "green", blue > 150 && "blue"].filter(Boolean);
  return names.length === 0 ? "dark" : names.join("+");
}

/** How loud a tone is in the sound of a file, from 0 to 1 (Goertzel), in the given second. */
export function loudnessOf(path: string, second: number, hertz: number): number {
  const rate = 8_000;
  const raw = ["-ac", "1", "-ar", String(rate), "-f", "s16le", "-"];
  const { stdout } = Bun.spawnSync(["ffmpeg", "-v", "error", "-ss", String(second), "-t", "1", "-i", path, ...raw]);
  const samples = new Int16Array(stdout.buffer, stdout.byteOffset, Math.floor(stdout.length / 2));
  const factor = 2 * Math.cos((2 * Math.PI * hertz) / rate);
  let [before, last] = [0, 0];
  for (const sample of samples) [before, last] = [last, sample / 32_768 + factor * last - before];
  const power = before * before + last * last - factor * before * last;
  return (2 * Math.sqrt(Math.max(0, power))) / Math.max(1, samples.length);
}
