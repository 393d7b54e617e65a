/** How workers of one room describe links to each other. All of it is plain data, for messages between threads. */
import type { LinkCredentials, LinkRef } from "../../protocol/media/relay.ts";
import type { Publication } from "../tracks/publication.ts";
import { type NegotiatedExtensions, noExtensions } from "../wire/sdp/extensions.ts";
import type { SrtpMasterKey } from "../wire/srtp/srtp.ts";

/** Whether both workers belong to one node ("worker") or to two ("node"). */
export type LinkKind = "worker" | "node";

export type OpenLink = LinkRef & {
  /** The media sockets at which the other worker may be reached. */
  peers: readonly { address: string; port: number }[];
  keys: { incoming: SrtpMasterKey; outgoing: SrtpMasterKey };
  /** Null for a worker of this node, whose address needs no check. */
  checks: { local: LinkCredentials; remote: LinkCredentials } | null;
};

/** The extension ids on every link, which replace those that the publishers negotiated. */
export const LINK_EXTENSIONS: NegotiatedExtensions = {
  ...noExtensions(),
  audioLevel: 1,
  orientation: 2,
  dependencyDescriptor: 3,
  playoutDelay: 4,
};

/** A backup has the id of its track in the room, but is a track of its own on a link. */
export function relayedIdOf({ trackId, primary }: Pick<Publication, "trackId" | "primary">): string {
  return primary ? `${trackId}/backup` : trackId;
}

/** A link carries the tracks of many publishers: their streams, retransmissions and reports. */
export const MAX_LINK_STREAMS = 8_192;
