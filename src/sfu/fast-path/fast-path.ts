/**
 * How packets are protected, copied and sent: by native code where there is some, otherwise in TypeScript. Both write the same bytes.
 * README.md describes the way of a packet.
 */
import { createSrtpCipher, type IncomingSrtp, SrtpReceiver } from "../wire/srtp/srtp.ts";
import type { SrtpCipher, SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import { createGroupFanOut, type GroupFanOut } from "./fan-out.ts";
import type { NativeReceiveLoop } from "./native-receive-loop.ts";
import type { Descriptor, SendBatch } from "./send-batch.ts";

/**
 * Sends the first `count` packets of the batch on the descriptor of the socket. Returns true when no packet is left. Otherwise the
 * packets that were sent have a length of 0 afterwards, and the socket has to send the others.
 */
export type SendNatively = (socket: Descriptor, batch: SendBatch, count: number) => boolean;

export interface FastPath {
  readonly name: "typescript" | "native";
  createCipher(master: SrtpMasterKey): SrtpCipher;
  /** Refuses packets of more than `maxStreams` SSRCs, by default those of a client. */
  createReceiver(master: SrtpMasterKey, maxStreams?: number): IncomingSrtp;
  readonly fanOutToGroup: GroupFanOut;
  /** Null if Bun's socket has to send. */
  readonly send: SendNatively | null;
  /** Null if the event loop has to receive everything. */
  readonly receiveLoop: NativeReceiveLoop | null;
  /** Forgets all keys. Later calls are refused. */
  close(): void;
}

export const typescriptPath: FastPath = {
  name: "typescript",
  createCipher: createSrtpCipher,
  createReceiver: (master, maxStreams) => new SrtpReceiver(master, undefined, maxStreams),
  fanOutToGroup: createGroupFanOut(),
  send: null,
  receiveLoop: null,
  close() {},
};
