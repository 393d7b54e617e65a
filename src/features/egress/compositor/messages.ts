/** The lines of JSON between the server and a compositor process. */
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { SubscribedSection, SubscriptionChange } from "../../../protocol/signaling.ts";
import type { Layout, SceneTrack } from "./scene.ts";

/** The argument with which the server starts itself as a compositor; not a command for users. */
export const COMPOSITOR_COMMAND = "compositor";

export type Encoding = {
  width: number;
  height: number;
  framesPerSecond: number;
  videoKbps: number;
  videoProfile: "baseline" | "main" | "high";
  audioKbps: number;
  audioCodec: "aac" | "opus";
  audioFrequency: number;
  /** The keyframe interval. Outputs begin at a keyframe, and segments end before one. */
  keyframeSeconds: number;
  hasVideo: boolean;
  hasAudio: boolean;
};

/** `url` contains the stream key and is never logged. `address` is the checked IP address of its host. */
export type StreamTarget = { kind: "stream"; id: string; url: string; address: string };
type FileTarget = { kind: "file"; id: string; path: string; format: "mp4" | "ogg" };
export type SegmentsTarget = {
  kind: "segments";
  id: string;
  playlist: string;
  livePlaylist: string | null;
  /** The path of the segments, without the number and `.ts`. */
  prefix: string;
  seconds: number;
};
export type OutputTarget = StreamTarget | FileTarget | SegmentsTarget;

export type Scene = { tracks: SceneTrack[]; speakers: string[] };

export type StartCompositor = {
  ffmpeg: string;
  font: string | null;
  layout: Layout;
  showsNames: boolean;
  encoding: Encoding;
  outputs: OutputTarget[];
};

export type ToCompositor =
  | ({ type: "start" } & StartCompositor)
  /** The room is open on a media node, to which the compositor connects. */
  | { type: "connect" }
  | { type: "disconnect" }
  | ({ type: "scene" } & Scene)
  | { type: "layout"; layout: Layout }
  | { type: "addOutput"; output: StreamTarget }
  | { type: "removeOutput"; id: string }
  | { type: "answer"; request: number; answer: NegotiateAnswer | null; error: string | null }
  | { type: "stop" };

export type OutputReport = {
  id: string;
  state: "active" | "ended" | "failed";
  error: string | null;
  bytes: number;
  durationMs: number;
};

export type FromCompositor =
  | { type: "negotiate"; request: number; sdp: string; subscribe: SubscribedSection[] }
  | { type: "subscriptions"; tracks: SubscriptionChange[] }
  /** The first frame is encoded. */
  | { type: "started" }
  | ({ type: "output" } & OutputReport)
  /** Frames that were not composed because this machine was too slow; sent once. */
  | { type: "slow" }
  | { type: "ended"; error: string | null };
