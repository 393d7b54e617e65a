import type { MediaNode, Negotiate, NegotiateAnswer } from "../../../src/protocol/media-node.ts";
import type { SubscribedSection } from "../../../src/protocol/signaling.ts";

/** A server that forwards one publisher's picture and sound to everyone else, whatever its own protocol. */
export type Contestant = Pick<MediaNode, "negotiate"> & {
  name: string;
  /** Of the process whose CPU time counts. */
  pid: number;
  admit(participantId: string): Promise<void>;
  /** What there is to subscribe to, once the publisher's first packets have arrived. */
  published(): Promise<SubscribedSection[]>;
  stop(): Promise<void>;
};

export const isPublisher = ({ publish = [] }: Negotiate): boolean => publish.length > 0;

/** Our peers take the client's part in the handshake, also with servers that would rather have it. */
export function asDtlsClient(offer: string): string {
  return offer.replaceAll("a=setup:actpass", "a=setup:active");
}

export type { NegotiateAnswer };
