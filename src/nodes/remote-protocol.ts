/**
 * The protocol between a control plane and a media node on another machine: JSON over one WebSocket that the control
 * plane opens at the node's `internalUrl`. A session outlives the socket: on reconnection each side reports the last
 * frame it has received and the other repeats the missed ones, so that every request is executed once and every event
 * is delivered once, in order.
 */
import type { OpenedLink } from "../protocol/media/relay.ts";
import type { MediaEndpoints, MediaErrorCode, MediaEvent, MediaMethod, RoomSnapshot } from "../protocol/media-node.ts";

export const NODE_SOCKET_PATH = "/v1/media";
/** The path is followed by `{recordingId}/{fileName}`: GET with a range, and DELETE; 423 while the recording runs. */
export const NODE_FILES_PATH = "/v1/media/recordings/";

/** Headers of the upgrade, in addition to `authorization: Bearer <SFU_REGISTRATION_SECRET>`. */
export const SESSION_HEADER = "stoa-conversation";
export const LAST_SEQ_HEADER = "stoa-last-seq";
/** The term of a cluster's leader; a request with a lower term than an earlier one is rejected. */
export const TERM_HEADER = "stoa-term";

/** Frames that a node keeps while its control plane is disconnected: some minutes of a busy node. */
export const NODE_RING_FRAMES = 8_192;
/** The limit is high because frames include partial segments of live streams. */
export const NODE_RING_CHARACTERS = 64 * 1024 * 1024;
/** An offer may have 512 KB; the snapshot of a full node is larger. */
export const NODE_FRAME_MAX_BYTES = 64 * 1024 * 1024;

/** Ids start at 1 within a session. */
export type NodeCall = { type: "call"; id: number; method: MediaMethod; request: unknown };
/** The node returns `sentAtMs`; earlier versions of the control plane do not send it. */
export type ToNode = NodeCall | { type: "ping"; sentAtMs?: number };

export type Welcome = {
  type: "welcome";
  /** False when the node does not know the session; `rooms` is then its state. */
  resumed: boolean;
  /** The last request that the node received. */
  lastCall: number;
  rooms: RoomSnapshot[];
  /** The links to other nodes, with `rooms`; missing from nodes of versions that have none. */
  links?: OpenedLink[];
  /** The node's media endpoints, for the TURN relay of the control plane; missing from nodes of earlier versions. */
  media?: MediaEndpoints;
};

/** Frames with a `seq`, which are repeated after an interruption. */
export type NodePush =
  | { type: "answer"; id: number; response?: unknown }
  | { type: "error"; id: number; code: MediaErrorCode | null; message: string }
  | { type: "event"; event: MediaEvent };

export type FromNode =
  | Welcome
  /** `clockMs` is the time of the clock that stamps recorded media. Both are missing from nodes of earlier versions. */
  | { type: "pong"; sentAtMs?: number; clockMs?: number }
  /** The node is about to stop, so its rooms have to move. */
  | { type: "closing" }
  | (NodePush & { seq: number });
