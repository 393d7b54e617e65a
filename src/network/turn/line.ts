import type { Address } from "./address.ts";

export type TurnTransport = "udp" | "tcp" | "tls";

/** One client's way to the server: a connection, or the address that its datagrams come from. */
export type TurnLine = Address & {
  readonly transport: TurnTransport;
  /** The bytes are the caller's again afterwards. False when the client is too slow and the message is lost. */
  send(message: Uint8Array): boolean;
  close(): void;
};

/** Where a peer that clients may name is really reached. */
export type Peer = { readonly announced: Address; readonly reached: Address };

/** The socket through which one allocation speaks with one peer. */
export type RelaySocket = { send(data: Uint8Array): void; close(): void };

export type RelayRequest = {
  peer: Peer;
  /** Who is behind it, and the address that the client was told it has. */
  client: Address;
  relayed: Address;
  onPacket(data: Buffer): void;
};

export type OpenRelay = (request: RelayRequest) => Promise<RelaySocket>;
