/** What the main thread and a media worker say to each other: calls of a MediaNode, their answers, and events. */
import type { MediaErrorCode, MediaEvent, MediaMethod, MediaRequest } from "../protocol/media-node.ts";
import type { SrtpProfile } from "./wire/srtp/srtp.ts";

export type WorkerSettings = {
  /** Address to bind: `::` for both families. */
  hostname: string;
  /** 0: any free one, the same for UDP and TCP. */
  port: number;
  /** IP addresses clients can reach this machine under; they become the candidates. */
  announce: string[];
  tcp: boolean;
  /** MiB that the worker may hold. */
  maxMemoryMb?: number | undefined;
  srtpProfiles: SrtpProfile[];
  /** Protects and sends packets instead of TypeScript. */
  nativeLibrary?: string | undefined;
  /** Checks with these credentials are answered and lead nowhere: so that the way to the port can be tried. */
  probe?: { ufrag: string; pwd: string };
  /** Memory of a ClientTable: whom the relay of this machine speaks for. */
  relayed?: SharedArrayBuffer;
};

export type WorkerCall = {
  [M in MediaMethod]: { type: "call"; id: number; method: M; request: MediaRequest<M> };
}[MediaMethod];

/** Calls that change nothing. */
export const ONLY_LOOKS: ReadonlySet<MediaMethod> = new Set<MediaMethod>(["load", "rooms", "room", "flight"]);

export type ToWorker =
  /** `vitals`: counted up while the engine runs, even when it is too busy to answer; and the MiB that the worker holds. */
  | { type: "start"; settings: WorkerSettings; vitals: Int32Array }
  | WorkerCall
  /** Many came and went, and few do any more. */
  | { type: "calm" }
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
  /** Something went wrong and was survived: for the log. */
  | { type: "fault"; message: string }
  | { type: "closed" };
