import type { MediaNode, Negotiate, NegotiateAnswer } from "../../../src/protocol/media-node.ts";
import type { SubscribedSection } from "../../../src/protocol/signaling.ts";
import type { PeerOptions } from "../../../src/rtc-client/peer.ts";

/** A server that forwards one publisher's audio and video to all viewers, whatever its own protocol. */
export type Contestant = Pick<MediaNode, "negotiate"> & {
  name: string;
  /** The id of the process whose CPU time counts. */
  pid: number;
  /** Under which numbers its packets carry what; ours unless given. */
  extensionIds?: PeerOptions["extensionIds"];
  admit(participantId: string): Promise<void>;
  /** The tracks that can be subscribed to, once the publisher's first packets have arrived. */
  published(): Promise<SubscribedSection[]>;
  stop(): Promise<void>;
};

export const isPublisher = ({ publish = [] }: Negotiate): boolean => publish.length > 0;

/** Our peers take the client's part in the handshake, also with servers that would rather have it. */
export function asDtlsClient(offer: string): string {
  return offer.replaceAll("a=setup:actpass", "a=setup:active");
}

/** Stoa learns a peer's address from its checks; other servers need it in a message. */
export function withCandidate(offer: string, address: string, port: number): string {
  return offer.replaceAll("a=rtcp-mux", `a=candidate:1 1 udp 2130706431 ${address} ${port} typ host\r\na=rtcp-mux`);
}

export type { NegotiateAnswer };
