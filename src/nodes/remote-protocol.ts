/**
 * What a control plane and a media node on another machine say to each other, as JSON over one WebSocket that the
 * control plane opens at the node's `internalUrl`. The conversation outlives the socket: whoever comes back names the
 * last frame it has seen, and both sides send again what the other missed, so that a call is made once and an event is
 * heard once, in order, whatever the network does.
 */
import type { MediaErrorCode, MediaEvent, MediaMethod, MediaPlaces, RoomSnapshot } from "../protocol/media-node.ts";

export const NODE_SOCKET_PATH = "/v1/media";
/** Below it `{recordingId}/{fileName}`: GET with a range, and DELETE. 423 while the recording runs. */
export const NODE_FILES_PATH = "/v1/media/recordings/";

/** Headers of the upgrade, beside `authorization: Bearer <SFU_REGISTRATION_SECRET>`. */
export const CONVERSATION_HEADER = "stoa-conversation";
export const LAST_SEQ_HEADER = "stoa-last-seq";
/** Of servers that share a commit log: counts those that have led. One that was followed by another is refused. */
export const TERM_HEADER = "stoa-term";

/** Frames a node keeps for a control plane that is away: some minutes of a busy node. */
export const NODE_RING_FRAMES = 8_192;
/** Parts of live streams are among them. */
export const NODE_RING_CHARACTERS = 64 * 1024 * 1024;
/** An offer may have 512 KB; the snapshot of a full node is larger. */
export const NODE_FRAME_MAX_BYTES = 64 * 1024 * 1024;

/** Ids of calls count up from 1 within a conversation. */
export type NodeCall = { type: "call"; id: number; method: MediaMethod; request: unknown };
export type ToNode = NodeCall | { type: "ping" };

export type Welcome = {
  type: "welcome";
  /** False: the node knows nothing of this conversation; `rooms` is what it has. */
  resumed: boolean;
  /** The last call that reached the node. */
  lastCall: number;
  rooms: RoomSnapshot[];
  /** Where clients reach its media, for the relay of the control plane. A node of an earlier version does not say. */
  media?: MediaPlaces;
};

/** Frames that are sent again: each has a `seq`. */
export type NodePush =
  | { type: "answer"; id: number; response?: unknown }
  | { type: "error"; id: number; code: MediaErrorCode | null; message: string }
  | { type: "event"; event: MediaEvent };

export type FromNode =
  | Welcome
  | { type: "pong" }
  /** The node is about to stop: its rooms belong elsewhere. */
  | { type: "closing" }
  | (NodePush & { seq: number });
