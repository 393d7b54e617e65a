/** The lines of JSON between the server and a process that forwards a participant's tracks to another room. */
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { Layer, TrackKind, TrackSource } from "../../../protocol/room-records.ts";
import type { PublishedSection, SubscribedSection } from "../../../protocol/signaling.ts";

/** The argument with which the server starts itself as a forwarder; not a command for users. */
export const FORWARDER_COMMAND = "forwarder";

export const LAYERS = ["low", "medium", "high"] as const satisfies readonly Layer[];

export type ForwardedTrack = {
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  name?: string;
  simulcast: boolean;
};

export type ToForwarder =
  /** All tracks that are forwarded from now on. */
  | { type: "tracks"; tracks: ForwardedTrack[] }
  | { type: "answer"; request: number; answer: NegotiateAnswer | null; error: string | null };

/** Each layer has a connection of its own. The connection of `high` has all tracks, the others only tracks with simulcast. */
export type FromForwarder = { type: "negotiate"; request: number; sdp: string } & (
  | { room: "source"; layer: Layer; subscribe: SubscribedSection[] }
  | { room: "destination"; publish: PublishedSection[] }
);
