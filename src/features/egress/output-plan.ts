/** Validates the outputs that a caller requests, and decides where they are written. */
import { dirname, extname, join } from "node:path";
import { allowedAddresses, type Lookup, type Target } from "../../kernel/net/targets.ts";
import { invalid } from "../../protocol/errors.ts";
import type { OutputTarget } from "./compositor/messages.ts";
import type { EgressOutput } from "./egress.table.ts";

/** The caller's own S3-compatible bucket, kept in memory only. */
export type Bucket = {
  bucket: string;
  endpoint: string | null;
  region: string | null;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
  virtualHostedStyle: boolean;
};

type FileRequest = { kind: "file"; path: string; format: "mp4" | "ogg"; bucket: Bucket | null };
type SegmentsRequest = {
  kind: "segments";
  prefix: string;
  playlist: string;
  livePlaylist: string;
  seconds: number;
  bucket: Bucket | null;
};
type StreamRequest = { kind: "stream"; url: string };
export type OutputRequest = FileRequest | SegmentsRequest | StreamRequest;

export type PlannedOutput = { target: OutputTarget; output: EgressOutput; bucket: Bucket | null };

/** The values of the placeholders in braces in a path. */
export type PathWords = Record<string, string>;

const MAX_PATH = 1_024;
/** The limit in UTF-8 bytes. File systems allow 255 bytes, some of which segment numbers and the suffix of unfinished files need. */
const MAX_NAME_BYTES = 240;
const SEGMENT_SECONDS = { most: 60, usual: 4 };
const MAX_URL = 2_048;
export const MAX_OUTPUTS = 10;

/** The path within the folder or bucket, which it cannot leave. `suffix` is appended unless the path already has it. */
export function filledPath(path: string, words: PathWords, fallback: string, suffix: string): string {
  const given = path === "" || path.endsWith("/") ? `${path}${fallback}` : path;
  const filled = given.replaceAll(/\{(\w+)\}/g, (whole, word: string) =>
    Object.hasOwn(words, word) ? (words[word] ?? "").replaceAll(/[/\\\p{Cc}]/gu, "-") : whole,
  );
  const parts = filled.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw invalid("filepath", "must not contain ..");
  if (/\p{Cc}/u.test(filled)) throw invalid("filepath", "must not contain control characters");
  const joined = parts.join("/");
  const whole = joined.toLowerCase().endsWith(suffix) ? joined : `${joined}${suffix}`;
  if (whole.length > MAX_PATH) throw invalid("filepath", `has at most ${MAX_PATH} characters`);
  if (parts.some((part) => Buffer.byteLength(part) > MAX_NAME_BYTES))
    throw invalid("filepath", `has at most ${MAX_NAME_BYTES} bytes between two slashes`);
  return whole;
}

const STREAM_PROTOCOLS = ["rtmp:", "rtmps:", "srt:"];
/** The options of ffmpeg's SRT protocol that a receiver may need. Other options could read files or listen for connections. */
const SRT_OPTIONS = new Set(["streamid", "passphrase", "pbkeylen", "latency", "mode"]);

export function parseStreamUrl(text: string): URL {
  if (text.length > MAX_URL || !URL.canParse(text)) throw invalid("urls", "contains what is not a URL");
  const url = new URL(text);
  if (!STREAM_PROTOCOLS.includes(url.protocol)) throw invalid("urls", "must begin with rtmp://, rtmps:// or srt://");
  if (url.username !== "" || url.password !== "") throw invalid("urls", "must not contain a user name or password");
  if (url.protocol !== "srt:") return url;
  if (url.port === "") throw invalid("urls", "of SRT needs a port");
  for (const [name, value] of url.searchParams) {
    if (!SRT_OPTIONS.has(name)) throw invalid("urls", `has the option ${name}, which is not supported`);
    if (name === "mode" && value !== "caller") throw invalid("urls", "can only have the mode caller");
  }
  return url;
}

/** Replaces everything that would let others send in the caller's name, as LiveKit does. */
export function withoutKey(text: string): string {
  const url = new URL(text);
  const shortened = (value: string) => (value.length > 6 ? `{${value.slice(0, 3)}...${value.slice(-3)}}` : "{...}");
  if (url.protocol === "srt:") {
    const query = [...url.searchParams].map(([name, value]) =>
      name === "streamid" || name === "passphrase" ? `${name}=${shortened(value)}` : `${name}=${value}`,
    );
    return `srt://${url.host}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  }
  const [path = ""] = text.slice(text.indexOf("/", text.indexOf("//") + 2) + 1).split("?");
  const parts = path.split("/");
  const key = parts.pop() ?? "";
  return `${url.protocol}//${url.host}/${[...parts, shortened(key)].join("/")}`;
}

type PlanContext = {
  /** The folder for the files of the project. */
  folder: string;
  /** The folder for files that are uploaded to a bucket at the end. */
  uploads: string;
  words: PathWords;
  lookup: Lookup;
  allows: (target: Target) => boolean;
  newId: () => string;
};

export async function planOutput(request: OutputRequest, context: PlanContext): Promise<PlannedOutput> {
  const { folder, uploads, words, newId } = context;
  const id = newId();
  const root = request.kind !== "stream" && request.bucket ? join(uploads, id) : folder;
  const output: EgressOutput = {
    id,
    kind: request.kind,
    name: "",
    location: "",
    playlist: "",
    livePlaylist: "",
    status: "STARTING",
    error: null,
    startedAt: null,
    endedAt: null,
    durationMs: 0,
    bytes: 0,
    segments: 0,
  };
  const fallback = "{room_name}-{time}".replaceAll(/\{(\w+)\}/g, (_, word: string) =>
    (words[word] ?? "").replaceAll(/[/\\\p{Cc}]/gu, "-"),
  );
  switch (request.kind) {
    case "file": {
      const name = filledPath(request.path, words, fallback, `.${request.format}`);
      const target = { kind: "file", id, path: join(root, name), format: request.format } as const;
      return { target, output: { ...output, name }, bucket: request.bucket };
    }
    case "segments": {
      const name = filledPath(request.prefix, words, fallback, "");
      const beside = (path: string, missing: string) => {
        const filled = filledPath(path === "" ? missing : path, words, missing, ".m3u8");
        // A playlist without a folder is put into the folder of its segments, because its lines are relative to that.
        return path.includes("/") ? filled : join(dirname(name), filled);
      };
      const playlist = beside(request.playlist, name.split("/").at(-1) ?? "");
      const livePlaylist = request.livePlaylist === "" ? "" : beside(request.livePlaylist, "");
      for (const one of [playlist, livePlaylist]) {
        if (one !== "" && dirname(one) !== dirname(name))
          throw invalid("playlistName", "must be in the folder of the segments");
      }
      const { most, usual } = SEGMENT_SECONDS;
      const seconds = request.seconds || usual;
      if (seconds > most) throw invalid("segmentDuration", `must be at most ${most} seconds`);
      const target: OutputTarget = {
        kind: "segments",
        id,
        seconds,
        prefix: join(root, name),
        playlist: join(root, playlist),
        livePlaylist: livePlaylist === "" ? null : join(root, livePlaylist),
      };
      return { target, output: { ...output, name, playlist, livePlaylist }, bucket: request.bucket };
    }
    case "stream": {
      const url = parseStreamUrl(request.url);
      const [address] = await allowedAddresses(url, context.allows, context.lookup).catch(() => [] as string[]);
      if (address === undefined)
        throw invalid("urls", "points to a host that is not found, or not on the public internet");
      // ffmpeg gets the URL as it was checked: what the parser drops or encodes, such as line feeds and spaces, must not reach it.
      const { href } = url;
      const target = { kind: "stream", id, url: href, address } as const;
      return { target, output: { ...output, name: withoutKey(href) }, bucket: null };
    }
  }
}

export const mimeTypeOf = (path: string): string =>
  ({ ".mp4": "video/mp4", ".ogg": "audio/ogg", ".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t" })[
    extname(path)
  ] ?? "application/octet-stream";
