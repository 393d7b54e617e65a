/**
 * The process that fetches a URL, transcodes it with ffmpeg and publishes it in a room, like a WHIP encoder whose offers and
 * answers are lines of JSON. It has a lower priority than calls. When the server ends, this process's input ends, and the process
 * exits.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { BOUNDED_FRAMES } from "../../../../features/recordings/composition/ffmpeg.ts";
import { systemLookup } from "../../../../kernel/net/targets.ts";
import { endFirstWithoutMemory } from "../../../../kernel/own-command.ts";
import { AudioSender } from "../../../../rtc-client/participant/audio-sender.ts";
import { MediaConnection } from "../../../../rtc-client/participant/media-connection.ts";
import { SimulatedNetwork } from "../../../../rtc-client/participant/simulated-network.ts";
import { PLAIN } from "../../../../rtc-client/participant/track-cipher.ts";
import { VideoSender } from "../../../../rtc-client/participant/video-sender.ts";
import { type CheckedProxy, openCheckedProxy, plainUrls } from "./checked-proxy.ts";
import { begun, ivfFrames, stereoSamples } from "./ivf.ts";
import type { FromFetcher, ToFetcher } from "./messages.ts";

type Start = Extract<ToFetcher, { type: "start" }>;

/** All of these formats read media only; others could open files and devices. */
const FORMATS = "hls,mpegts,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,flv,mp3,aac,ogg,wav,flac,webvtt";
const SILENT_MS = 15_000;
const MAX_STDERR_CHARACTERS = 8_000;
const SAMPLE_RATE = 48_000;
const OPUS_FRAME = 960;

export function runFetcher(): Promise<void> {
  endFirstWithoutMemory();
  const waiting = new Map<number, PromiseWithResolvers<string>>();
  let requests = 0;
  const done = Promise.withResolvers<void>();
  process.stdout.on("error", () => {});
  const send = (message: FromFetcher) => void process.stdout.write(`${JSON.stringify(message)}\n`);

  function negotiate(sdp: string): Promise<string> {
    const request = ++requests;
    const answer = Promise.withResolvers<string>();
    waiting.set(request, answer);
    send({ type: "negotiate", request, sdp });
    return answer.promise;
  }

  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const message = JSON.parse(line) as ToFetcher;
    if (message.type === "answer") {
      const request = waiting.get(message.request);
      waiting.delete(message.request);
      if (message.sdp === null) request?.reject(new Error(message.error ?? "refused"));
      else request?.resolve(message.sdp);
      return;
    }
    fetchInto(message, negotiate)
      .then(
        () => send({ type: "ended", error: null }),
        (error: Error) => send({ type: "ended", error: withoutUrls(error.message) }),
      )
      .finally(done.resolve);
  });
  lines.on("close", done.resolve);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
  return done.promise;
}

/** ffmpeg's messages repeat URLs, which may contain credentials. */
const withoutUrls = (text: string): string => text.replaceAll(/\w+:\/\/[^\s'"]+/g, "…").slice(-500);

async function fetchInto(start: Start, negotiate: (sdp: string) => Promise<string>): Promise<void> {
  const { allowsLoopback, allowsPrivate, audio, video } = start;
  const proxy = await openCheckedProxy(
    (target) =>
      target === "public" || (target === "loopback" && allowsLoopback) || (target === "private" && allowsPrivate),
    systemLookup,
  );
  const has = await probe(start, proxy);
  if (!has.audio && !has.video) throw new Error(has.error);
  const ffmpeg = run(start, proxy, [
    ...(has.video ? videoOutput(video) : []),
    ...(has.audio ? ["-map", "0:a:0", "-af", "aresample=async=1:first_pts=0", "-ac", "2"] : []),
    ...(has.audio ? ["-ar", String(SAMPLE_RATE), "-f", "s16le", "pipe:3"] : []),
  ]);
  const frames = has.video ? await begun(ivfFrames(ffmpeg.video)) : null;
  const samples = has.audio ? await begun(stereoSamples(ffmpeg.audio)) : null;
  if (!frames && !samples) throw new Error((await ffmpeg.ended) ?? "it has no media");
  const media = new MediaConnection({
    network: new SimulatedNetwork(),
    cipher: null,
    negotiate: async ({ sdp }) => ({ sdp: await negotiate(sdp), tracks: [] }),
    onAudio: () => {},
    onVideo: () => {},
  });
  await media.connect([]);
  const [sound, images] = [
    samples && (await media.publish({ clientTrackId: "audio", kind: "audio", source: audio.source })),
    frames && (await media.publish({ clientTrackId: "video", kind: "video", source: video.source }, "VP8")),
  ];
  let timestamp = 0;
  const format = { sampleRate: SAMPLE_RATE, channels: 2 } as const;
  const senders = [
    samples &&
      new AudioSender(samples, format, PLAIN, ({ payload, level }) => {
        timestamp += OPUS_FRAME;
        sound?.send(payload, false, timestamp, level);
      }),
    frames &&
      new VideoSender(frames, "VP8", PLAIN, (packet) => images?.send(packet.payload, packet.marker, packet.timestamp)),
  ];
  await Promise.all(senders.map((sender) => sender?.done));
  const error = await ffmpeg.ended;
  media.close();
  if (error !== null) throw new Error(error);
}

/**
 * The output is never larger than the input. There is a keyframe every second, because ffmpeg cannot be asked for one when a viewer
 * joins.
 */
function videoOutput({ width, height, framesPerSecond, kbps }: Start["video"]): string[] {
  const size = `'min(${width},iw)':'min(${height},ih)'`;
  return [
    ...["-map", "0:v:0", "-fpsmax", String(framesPerSecond), "-force_key_frames", "expr:gte(t,n_forced)"],
    ...["-vf", `scale=${size}:force_original_aspect_ratio=decrease:force_divisible_by=2,format=yuv420p`],
    ...["-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-threads", "2", "-b:v", `${kbps}k`],
    ...["-maxrate", `${kbps}k`, "-bufsize", `${kbps}k`, "-flush_packets", "1", "-f", "ivf", "pipe:1"],
  ];
}

/** What ffmpeg may open: plain HTTP addresses, all of which its environment redirects to the proxy. */
export const inputOf = (url: string): string[] => [
  ...["-rw_timeout", String(SILENT_MS * 1_000), "-protocol_whitelist", "http,tcp,crypto"],
  ...["-format_whitelist", FORMATS, ...BOUNDED_FRAMES, "-i", plainUrls(url)],
];

function begin({ ffmpeg, url }: Start, { port }: CheckedProxy, output: string[]): ChildProcess {
  const { PATH = "" } = process.env;
  return spawn(
    ffmpeg,
    [
      ...["-hide_banner", "-nostdin", "-loglevel", output.length === 0 ? "info" : "error"],
      ...(output.length === 0 ? [] : ["-re"]),
      ...[...inputOf(url), ...output],
    ],
    { stdio: ["ignore", "pipe", "pipe", "pipe"], env: { PATH, http_proxy: `http://127.0.0.1:${port}`, no_proxy: "" } },
  );
}

/** Resolves with ffmpeg's messages, or null after success. */
function endOf(child: ChildProcess): Promise<{ said: string; failed: boolean }> {
  let said = "";
  child.stderr?.on("data", (bytes: Buffer) => {
    said = (said + bytes.toString()).slice(-MAX_STDERR_CHARACTERS);
  });
  return new Promise((resolve) => {
    child.on("error", (error) => resolve({ said: error.message, failed: true }));
    child.on("close", (code) => resolve({ said, failed: code !== 0 }));
  });
}

async function probe(start: Start, proxy: CheckedProxy) {
  const { said } = await endOf(begin(start, proxy, []));
  const streams = said.split("\n").filter((line) => /^\s*Stream #0:/.test(line) && !line.includes("(attached pic)"));
  const has = (kind: string) => streams.some((line) => line.includes(`: ${kind}: `));
  const error = said.trim().split("\n").at(-1) ?? "";
  return { audio: has("Audio"), video: has("Video"), error };
}

function run(start: Start, proxy: CheckedProxy, output: string[]) {
  const child = begin(start, proxy, output);
  process.on("exit", () => child.kill("SIGKILL"));
  const ended = endOf(child).then(({ said, failed }) => (failed ? said.trim().split("\n").at(-1) || "it ended" : null));
  return { video: child.stdout as Readable, audio: child.stdio[3] as Readable, ended };
}
