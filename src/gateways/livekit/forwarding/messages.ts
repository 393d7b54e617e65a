/** The lines of JSON between the server and a process that forwards a participant's tracks to another room. */
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { TrackKind, TrackSource } from "../../../protocol/room-records.ts";
import type { PublishedSection, SubscribedSection } from "../../../protocol/signaling.ts";

/** The argument with which the server starts itself as a forwarder; it is no command for people. */
export const FORWARDER_COMMAND = "forwarder";

export type ForwardedTrack = { trackId: string; kind: TrackKind; source: TrackSource; name?: string };

export type ToForwarder =
  /** All tracks that are forwarded from now on. */
  | { type: "tracks"; tracks: ForwardedTrack[] }
  | { type: "answer"; request: number; answer: NegotiateAnswer | null; error: string | null };

export type FromForwarder = { type: "negotiate"; request: number; sdp: string } & (
  | { room: "source"; subscribe: SubscribedSection[] }
  | { room: "destination"; publish: PublishedSection[] }
);
