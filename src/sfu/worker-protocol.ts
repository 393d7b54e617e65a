/** The messages between the main thread and a media worker: calls of a MediaNode, their responses, and events. */
import type { RelayCalls } from "../protocol/media/relay.ts";
import type {
  MediaErrorCode,
  MediaEvent,
  MediaMethod,
  MediaRequest,
  MediaResponse,
  RelayEvent,
} from "../protocol/media-node.ts";
import type { OpenLink } from "./relay/relayed-track.ts";
import type { SharedPort, Unshareable } from "./transport/port-sharing/port-sharing.ts";
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
  /** Without a JIT warm-up the first calls compile the code. */
  warmUp?: boolean | undefined;
  /** The path of the native library; undefined for the TypeScript path. */
  nativeLibrary?: string | undefined;
  /** Checks with these credentials get a response and no session, so that the port can be tested from outside. */
  probe?: { ufrag: string; pwd: string };
  /** The memory of a ClientTable: the clients of the relay of this machine. */
  relayed?: SharedArrayBuffer;
  /** The port of an older process, which both processes use from now on. When the older process is gone, `port` is used. */
  succeeds?: SharedPort | undefined;
};

type WorkerRelayCalls = RelayCalls & { openLink: OpenLink };

/** The calls by which a newer process joins the port of this one. */
type PortCalls = {
  sharePort: { request: undefined; response: SharedPort | Unshareable };
  /** No newer process has joined, or none will join any more. */
  keepPort: { request: undefined; response: undefined };
};

/** The methods of a node that a single worker serves. */
export type EngineMethod = Exclude<MediaMethod, "linkPoint" | "relay">;

type Calls = PortCalls & { [M in EngineMethod]: { request: MediaRequest<M>; response: MediaResponse<M> } } & {
  [M in keyof WorkerRelayCalls]: { request: WorkerRelayCalls[M]; response: undefined };
};
export type WorkerMethod = keyof Calls;
export type WorkerRequest<M extends WorkerMethod> = Calls[M]["request"];
export type WorkerResponse<M extends WorkerMethod> = Calls[M]["response"];

export type WorkerCall = {
  [M in WorkerMethod]: { type: "call"; id: number; method: M; request: WorkerRequest<M> };
}[WorkerMethod];

/** Calls that change nothing. */
export const ONLY_LOOKS: ReadonlySet<WorkerMethod> = new Set<WorkerMethod>(["load", "rooms", "room", "flight"]);

export type ToWorker =
  /**
   * `vitals` is shared memory: a counter that grows while the engine runs, even when it is too busy to respond; the MiB that the
   * worker holds; and how busy its thread is, in percent.
   */
  | { type: "start"; settings: WorkerSettings; vitals: Int32Array }
  | WorkerCall
  /** Many clients have come and gone and the thread is idle, so the worker collects garbage. */
  | { type: "collectGarbage" }
  | { type: "close" };

export type FromWorker =
  | {
      type: "started";
      address: string;
      port: number;
      fanOut: "typescript" | "native";
      buffersRaised: boolean;
      icmpErrorsSilenced: boolean;
    }
  | { type: "refused"; message: string }
  | { type: "answer"; id: number; response: unknown }
  | { type: "error"; id: number; code: MediaErrorCode | null; message: string }
  | { type: "event"; event: MediaEvent }
  | { type: "relay"; event: RelayEvent }
  /** The number of other processes that use the port of this worker. */
  | { type: "portShared"; others: number }
  /** An error that did not end the worker, for the log. */
  | { type: "fault"; message: string }
  | { type: "closed" };
