/** The messages between the main thread and a media worker: calls of a MediaNode, their responses, and events. */
import type { MediaErrorCode, MediaEvent, MediaMethod, MediaRequest } from "../protocol/media-node.ts";
import type { SrtpProfile } from "./wire/srtp/srtp.ts";

export type WorkerSettings = {
  /** The address to bind, `::` for both families. */
  hostname: string;
  /** 0 for any port that is free for UDP and TCP. */
  port: number;
  /** The IP addresses of the candidates, at which clients reach this machine. */
  announce: string[];
  tcp: boolean;
  /** The memory that the worker may hold, in MiB. */
  maxMemoryMb?: number | undefined;
  srtpProfiles: SrtpProfile[];
  /** The path of the native library; undefined for the TypeScript path. */
  nativeLibrary?: string | undefined;
  /** Checks with these credentials get a response and no session, so that the port can be tested from outside. */
  probe?: { ufrag: string; pwd: string };
  /** The memory of a ClientTable: the clients of the relay of this machine. */
  relayed?: SharedArrayBuffer;
};

export type WorkerCall = {
  [M in MediaMethod]: { type: "call"; id: number; method: M; request: MediaRequest<M> };
}[MediaMethod];

/** Calls that change nothing. */
export const ONLY_LOOKS: ReadonlySet<MediaMethod> = new Set<MediaMethod>(["load", "rooms", "room", "flight"]);

export type ToWorker =
  /** `vitals` is a counter that grows while the engine runs, even when it is too busy to respond, and the MiB that the worker holds. */
  | { type: "start"; settings: WorkerSettings; vitals: Int32Array }
  | WorkerCall
  /** Many clients have come and gone, and the thread is idle: the worker collects garbage. */
  | { type: "collectGarbage" }
  | { type: "close" };

export type FromWorker =
  | {
      type: "started";
      port: number;
      fanOut: "typescript" | "native";
      buffersRaised: boolean;
      icmpErrorsSilenced: boolean;
    }
  | { type: "refused"; message: string }
  | { type: "answer"; id: number; response: unknown }
  | { type: "error"; id: number; code: MediaErrorCode | null; message: string }
  | { type: "event"; event: MediaEvent }
  /** An error that did not end the worker, for the log. */
  | { type: "fault"; message: string }
  | { type: "closed" };
