/** The lines of JSON between the server and a process that fetches a URL into a room. */
import type { IngressSettings } from "../ingress.store.ts";

/** The argument with which the server starts itself as a fetcher; not a command for users. */
export const FETCHER_COMMAND = "fetcher";

export type ToFetcher =
  | {
      type: "start";
      ffmpeg: string;
      /** This URL may contain credentials, and is never logged. */
      url: string;
      allowsLoopback: boolean;
      allowsPrivate: boolean;
      audio: IngressSettings["audio"];
      video: IngressSettings["video"];
    }
  | { type: "answer"; request: number; sdp: string | null; error: string | null };

export type FromFetcher =
  | { type: "negotiate"; request: number; sdp: string }
  /** The media has ended, or the reason why there is none. */
  | { type: "ended"; error: string | null };
