/** How workers of one room describe links and tracks to each other. All of it is plain data, for messages between threads. */
import type { TrackKind, TrackSource } from "../../protocol/room-records.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { type NegotiatedExtensions, noExtensions } from "../wire/sdp/extensions.ts";
import type { SrtpMasterKey } from "../wire/srtp/srtp.ts";

export type OpenLink = {
  linkId: string;
  /** The media socket of the other worker. */
  peer: { address: string; port: number };
  keys: { incoming: SrtpMasterKey; outgoing: SrtpMasterKey };
};

export type LinkRef = { linkId: string };
export type SharedRoom = LinkRef & { roomId: string };

/** One stream of a track on a link. */
type RelayedLayer = { rid: string | null; ssrc: number; repairSsrc: number };

export type RelayedTrack = SharedRoom & {
  trackId: string;
  identity: string;
  clientTrackId: string;
  mid: string;
  kind: TrackKind;
  source: TrackSource;
  name: string | null;
  muted: boolean;
  codecs: readonly NegotiatedCodec[];
  /** The payload type of the codec that is sent now. */
  payloadType: number;
  layers: readonly RelayedLayer[];
};

export type RelayedTrackRef = SharedRoom & { trackId: string };

/** The ids on every link, whatever those of the publishers are. */
export const LINK_EXTENSIONS: NegotiatedExtensions = {
  ...noExtensions(),
  audioLevel: 1,
  orientation: 2,
  dependencyDescriptor: 3,
  playoutDelay: 4,
};

/** A link carries the tracks of many publishers: their streams, retransmissions and reports. */
export const MAX_LINK_STREAMS = 8_192;
