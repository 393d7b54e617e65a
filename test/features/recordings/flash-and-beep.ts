/** A video that flashes and a tone that sounds once a second, and where files have them. Page functions stand alone: they are sent there as text. */
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";
import { media } from "./ffmpeg.ts";

/** When both began, in milliseconds of the machine's clock: the video when it was drawn, the tone by the clock of the audio. */
export type Made = { flashAt: number; beepAt: number };
export type Size = { width: number; height: number };
export type ShowOptions = { codec: VideoCodec; encodings?: RTCRtpEncodingParameters[] };

declare global {
  interface Window {
    /** `tones`: what is to be heard only while it flashes; null where the sound beeps by itself. */
    show: { made: Made[]; canvas: HTMLCanvasElement; sound: MediaStream; tones: MediaStreamTrack[] | null };
  }
}

/** Runs in the page: begins to flash and to beep, before anyone receives it. */
export async function prepareShow({ width, height }: Size): Promise<void> {
  const LASTS = 0.2;
  /** On a machine without a loudspeaker, Firefox never starts the audio context, and reports no error. */
  const STARTS_WITHIN_MS = 5_000;
  const context = new AudioContext();
  await Promise.race([context.resume(), new Promise((resolve) => setTimeout(resolve, STARTS_WITHIN_MS))]);
  const hasSound = context.state === "running";
  const now = () => (hasSound ? context.currentTime : performance.now() / 1_000);
  const begin = Math.ceil(now()) + 1;
  const beeping = () => {
    const destination = context.createMediaStreamDestination();
    const gain = context.createGain();
    const tone = new OscillatorNode(context, { frequency: 1_000 });
    tone.connect(gain).connect(destination);
    gain.gain.value = 0;
    for (let second = 0; second < 300; second++) {
      gain.gain.setValueAtTime(0.5, begin + second);
      gain.gain.setValueAtTime(0, begin + second + LASTS);
    }
    tone.start();
    return destination.stream;
  };
  // The fake microphone of that browser always sounds, and is let through only for the beeps.
  const asItIs = { autoGainControl: false, echoCancellation: false, noiseSuppression: false };
  const sound = hasSound ? beeping() : await navigator.mediaDevices.getUserMedia({ audio: asItIs });
  const tones: MediaStreamTrack[] | null = hasSound ? null : [];
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  const made: Made[] = [];
  let shown = -1;
  const paint = () => {
    const since = now() - begin;
    const second = Math.floor(since);
    const isBright = since >= 0 && since - second < LASTS;
    if (isBright && second !== shown) {
      shown = second;
      const flashAt = performance.timeOrigin + performance.now();
      made.push({ flashAt, beepAt: hasSound ? flashAt - (since - second) * 1_000 : flashAt });
    }
    for (const track of tones ?? []) track.enabled = isBright;
    draw.fillStyle = isBright ? "white" : "black";
    draw.fillRect(0, 0, width, height);
    // Something always moves, or no frames are made.
    draw.fillStyle = "gray";
    draw.fillRect((now() * 50) % width, height - 10, 10, 10);
  };
  setInterval(paint, 1_000 / 30);
  window.show = { made, canvas, sound, tones };
  if (!hasSound) void context.close();
}

/** In the page, after it has joined: sends both, as tracks of their own each time. */
export async function publishShow({ codec, encodings }: ShowOptions): Promise<void> {
  const { canvas, sound } = window.show;
  // Each frame as it is drawn: at a requested rate, a browser takes one when it is due, up to 33 ms later.
  const [video] = canvas.captureStream().getVideoTracks();
  const [microphone] = sound.clone().getAudioTracks();
  window.show.tones?.push(microphone as MediaStreamTrack);
  const { localParticipant } = window.room;
  const how = encodings ? { encodings } : { simulcast: false };
  await localParticipant.publish(video as MediaStreamTrack, { source: "camera", codec, ...how });
  await localParticipant.publish(microphone as MediaStreamTrack, { source: "microphone" });
}

/** Moments at which the video, or this part of it, becomes bright, in milliseconds of the recording. */
export function flashes(path: string, offsetMs: number, crop = "iw/3:ih/3:10:10"): number[] {
  const filter = ["-vf", `crop=${crop},scale=1:1,format=gray`];
  const decode = ["ffmpeg", "-v", "error", "-i", path, "-fps_mode", "passthrough", ...filter, "-f", "rawvideo", "-"];
  const raw = Bun.spawnSync(decode).stdout;
  const times = media("ffprobe", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path);
  const at = times
    .split("\n")
    .filter(Boolean)
    .map((line) => Number.parseFloat(line) * 1_000);
  return at.filter((_, i) => (raw[i] ?? 0) > 128 && (raw[i - 1] ?? 255) <= 128).map((ms) => ms + offsetMs);
}

/** Moments at which the tone begins; with `hz`, only the tone of that frequency. */
export function beeps(path: string, offsetMs: number, hz?: number): number[] {
  const alone = hz === undefined ? "" : `,bandpass=f=${hz}:width_type=h:w=300`.repeat(2);
  // Time without packets is silence.
  const filter = ["-af", `aresample=async=1:min_hard_comp=0.01:first_pts=0${alone}`, "-ac", "1", "-ar", "48000"];
  const { stdout } = Bun.spawnSync(["ffmpeg", "-v", "error", "-i", path, ...filter, "-f", "s16le", "-"]);
  const samples = new Int16Array(stdout.buffer, stdout.byteOffset, stdout.length >> 1);
  const found: number[] = [];
  for (let at = 0, quietUntil = 0; at < samples.length; at++) {
    if (Math.abs(samples[at] as number) < 3_000) continue;
    if (at > quietUntil && at > 4_800) found.push((at / 48_000) * 1_000 + offsetMs);
    quietUntil = at + 24_000;
  }
  return found;
}
