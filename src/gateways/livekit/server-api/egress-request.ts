/** Reads what LiveKit's egress requests have in common: outputs, encoding and layout. */
import {
  AudioCodec,
  type DirectFileOutput,
  type EncodedFileOutput,
  EncodedFileType,
  type EncodingOptions,
  EncodingOptionsPreset,
  type ImageOutput,
  type S3Upload,
  type SegmentedFileOutput,
  SegmentedFileSuffix,
  StreamOutput,
  StreamProtocol,
  VideoCodec,
} from "@livekit/protocol";
import type { Encoding } from "../../../features/egress/compositor/messages.ts";
import { LAYOUTS, type Layout } from "../../../features/egress/compositor/scene.ts";
import { type Bucket, type OutputRequest, parseStreamUrl, withoutKey } from "../../../features/egress/output-plan.ts";
import { invalidArgument, notServed } from "./twirp.ts";

type Preset = [width: number, height: number, framesPerSecond: number, kbps: number];
const PRESETS: Partial<Record<EncodingOptionsPreset, Preset>> = {
  [EncodingOptionsPreset.H264_720P_30]: [1_280, 720, 30, 3_000],
  [EncodingOptionsPreset.H264_720P_60]: [1_280, 720, 60, 4_500],
  [EncodingOptionsPreset.H264_1080P_30]: [1_920, 1_080, 30, 4_500],
  [EncodingOptionsPreset.H264_1080P_60]: [1_920, 1_080, 60, 6_000],
  [EncodingOptionsPreset.PORTRAIT_H264_720P_30]: [720, 1_280, 30, 3_000],
  [EncodingOptionsPreset.PORTRAIT_H264_720P_60]: [720, 1_280, 60, 4_500],
  [EncodingOptionsPreset.PORTRAIT_H264_1080P_30]: [1_080, 1_920, 30, 4_500],
  [EncodingOptionsPreset.PORTRAIT_H264_1080P_60]: [1_080, 1_920, 60, 6_000],
};
const PROFILES: Partial<Record<VideoCodec, Encoding["videoProfile"]>> = {
  [VideoCodec.DEFAULT_VC]: "main",
  [VideoCodec.H264_BASELINE]: "baseline",
  [VideoCodec.H264_MAIN]: "main",
  [VideoCodec.H264_HIGH]: "high",
};
const AUDIO_CODECS: Partial<Record<AudioCodec, Encoding["audioCodec"]>> = {
  [AudioCodec.AAC]: "aac",
  [AudioCodec.OPUS]: "opus",
};
const USUAL: Preset = [1_280, 720, 30, 3_000];
const AUDIO_KBPS = 128;
const AUDIO_FREQUENCY = 48_000;
const KEYFRAME_SECONDS = 2;
const RATES = new Set([8_000, 16_000, 24_000, 32_000, 44_100, 48_000]);
const SIDE = { least: 64, most: 1_920 };
const MAX_FRAME_RATE = 60;
const MAX_VIDEO_KBPS = 20_000;
const MAX_AUDIO_KBPS = 512;
const MAX_KEYFRAME_SECONDS = 30;

type Options =
  | { value: EncodingOptionsPreset; case: "preset" }
  | { value: EncodingOptions; case: "advanced" }
  | { case: undefined; value?: undefined };
type Kinds = { hasVideo: boolean; hasAudio: boolean };

export function encodingOf(options: Options, kinds: Kinds, audioCodec: Encoding["audioCodec"]): Encoding {
  const preset = options.case === "preset" ? PRESETS[options.value] : USUAL;
  if (!preset) throw notServed("preset");
  const [width, height, framesPerSecond, videoKbps] = preset;
  const rest = { audioKbps: AUDIO_KBPS, audioFrequency: AUDIO_FREQUENCY, keyframeSeconds: KEYFRAME_SECONDS };
  const videoProfile: Encoding["videoProfile"] = "main";
  const encoding = { width, height, framesPerSecond, videoKbps, videoProfile, ...rest, audioCodec, ...kinds };
  return options.case === "advanced" ? advanced(options.value, encoding) : encoding;
}

function advanced(options: EncodingOptions, usual: Encoding): Encoding {
  const { width, height, depth, framerate, audioBitrate, audioFrequency, videoBitrate, keyFrameInterval } = options;
  const videoProfile = PROFILES[options.videoCodec];
  if (!videoProfile) throw notServed("videoCodec");
  if (options.audioCodec !== AudioCodec.DEFAULT_AC && AUDIO_CODECS[options.audioCodec] !== usual.audioCodec)
    throw notServed("audioCodec in this output");
  if (options.audioQuality !== 0 || options.videoQuality !== 0) throw notServed("audioQuality and videoQuality");
  if (depth !== 0 && depth !== 24) throw notServed(`depth ${depth}`);
  const within = (name: string, value: number, least: number, most: number, missing: number): number => {
    if (value === 0) return missing;
    if (value < least || value > most) throw invalidArgument(`${name} must be from ${least} to ${most}`);
    return value;
  };
  if (audioFrequency !== 0 && !RATES.has(audioFrequency))
    throw invalidArgument("audioFrequency is not one that AAC has");
  const side = (name: string, value: number, missing: number) =>
    2 * Math.round(within(name, value, SIDE.least, SIDE.most, missing) / 2);
  return {
    ...usual,
    videoProfile,
    width: side("width", width, usual.width),
    height: side("height", height, usual.height),
    framesPerSecond: within("framerate", framerate, 1, MAX_FRAME_RATE, usual.framesPerSecond),
    videoKbps: within("videoBitrate", videoBitrate, 50, MAX_VIDEO_KBPS, usual.videoKbps),
    audioKbps: within("audioBitrate", audioBitrate, 16, MAX_AUDIO_KBPS, usual.audioKbps),
    audioFrequency: audioFrequency === 0 ? usual.audioFrequency : audioFrequency,
    keyframeSeconds: within("keyFrameInterval", keyFrameInterval, 0.5, MAX_KEYFRAME_SECONDS, usual.keyframeSeconds),
  };
}

export function layoutOf(name: string): Layout {
  const plain = name === "" ? "grid" : name.replace(/-dark$/, "");
  const found = LAYOUTS.find((layout) => layout === plain);
  if (found) return found;
  throw notServed(`layout ${name.slice(0, 40)} (there are ${LAYOUTS.join(", ")})`);
}

export type LivekitOutputs = {
  output?:
    | { value: EncodedFileOutput; case: "file" }
    | { value: StreamOutput; case: "stream" }
    | { value: SegmentedFileOutput; case: "segments" }
    | { case: undefined; value?: undefined };
  fileOutputs: EncodedFileOutput[];
  streamOutputs: StreamOutput[];
  segmentOutputs: SegmentedFileOutput[];
  imageOutputs: ImageOutput[];
  webhooks: unknown[];
};

type Storage = EncodedFileOutput["output"] | SegmentedFileOutput["output"] | DirectFileOutput["output"];

export function outputsOf(request: LivekitOutputs, { hasVideo }: Kinds): OutputRequest[] {
  if (request.imageOutputs.length > 0) throw notServed("imageOutputs");
  if (request.webhooks.length > 0) throw notServed("webhooks of a request");
  const { output: old, fileOutputs, segmentOutputs, streamOutputs } = request;
  // The SDKs send an output in the deprecated field and in the list of its kind.
  const files = old?.case === "file" && fileOutputs.length === 0 ? [old.value] : fileOutputs;
  const segments = old?.case === "segments" && segmentOutputs.length === 0 ? [old.value] : segmentOutputs;
  const streams = old?.case === "stream" && streamOutputs.length === 0 ? [old.value] : streamOutputs;
  const outputs: OutputRequest[] = [
    ...files.map(({ fileType, filepath: path, output }) => ({
      kind: "file" as const,
      path,
      format: formatOf(fileType, path, hasVideo),
      bucket: bucketOf(output),
    })),
    ...segments.map(segmentsOf),
    ...streams.flatMap(({ protocol, urls }) => {
      if (protocol === StreamProtocol.WEBSOCKET) throw notServed("websocket output");
      return urls.map((url) => ({ kind: "stream" as const, url }));
    }),
  ];
  const isOgg = (one: OutputRequest) => one.kind === "file" && one.format === "ogg";
  if (outputs.some(isOgg) && !outputs.every(isOgg)) throw notServed("OGG beside other outputs");
  return outputs;
}

export const isOpus = (outputs: readonly OutputRequest[]): boolean =>
  outputs.some((one) => one.kind === "file" && one.format === "ogg");

function formatOf(type: EncodedFileType, path: string, hasVideo: boolean): "mp4" | "ogg" {
  if (type === EncodedFileType.MP3) throw notServed("MP3");
  if (type === EncodedFileType.OGG) {
    if (hasVideo) throw invalidArgument("OGG files have no video here");
    return "ogg";
  }
  const wantsMp4 = type === EncodedFileType.MP4 || hasVideo || path.toLowerCase().endsWith(".mp4");
  return wantsMp4 ? "mp4" : "ogg";
}

function segmentsOf(output: SegmentedFileOutput): OutputRequest {
  if (output.filenameSuffix === SegmentedFileSuffix.TIMESTAMP) throw notServed("filenameSuffix TIMESTAMP");
  return {
    kind: "segments",
    prefix: output.filenamePrefix,
    playlist: output.playlistName,
    livePlaylist: output.livePlaylistName,
    seconds: output.segmentDuration,
    bucket: bucketOf(output.output),
  };
}

function bucketOf(storage: Storage): Bucket | null {
  if (storage.case === undefined) return null;
  if (storage.case !== "s3") throw notServed(`${storage.case} storage`);
  const { accessKey, secret, bucket, region, endpoint, sessionToken, forcePathStyle } = storage.value;
  const { assumeRoleArn, assumeRoleExternalId, tagging, contentDisposition, metadata, proxy } = storage.value;
  const more = { assumeRoleArn, assumeRoleExternalId, tagging, contentDisposition };
  for (const [name, value] of Object.entries(more)) if (value !== "") throw notServed(`s3.${name}`);
  if (Object.keys(metadata).length > 0) throw notServed("s3.metadata");
  if (proxy) throw notServed("s3.proxy");
  if (bucket === "" || accessKey === "" || secret === "")
    throw invalidArgument("s3 needs bucket, accessKey and secret");
  return {
    bucket,
    accessKeyId: accessKey,
    secretAccessKey: secret,
    endpoint: endpoint === "" ? null : endpoint,
    region: region === "" ? null : region,
    sessionToken: sessionToken === "" ? null : sessionToken,
    virtualHostedStyle: endpoint !== "" && !forcePathStyle && endpoint.includes("amazonaws.com"),
  };
}

/** Removes stream keys and bucket credentials from a request, which the egress shows from then on. */
export function redact(value: unknown): void {
  if (value instanceof StreamOutput) value.urls = value.urls.map((url) => withoutKey(parseStreamUrl(url).href));
  if (typeof value !== "object" || value === null) return;
  const record = value as Record<string, unknown>;
  for (const name of ["accessKey", "secret", "sessionToken"] satisfies (keyof S3Upload)[])
    if (typeof record[name] === "string" && record[name] !== "") record[name] = `{${name}}`;
  for (const inner of Object.values(record)) redact(inner);
}
