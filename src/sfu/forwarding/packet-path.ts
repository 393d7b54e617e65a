/** How packets are protected, copied and sent: in TypeScript, everywhere, or by native code, where there is some. */

import { createSrtpCipher, type IncomingSrtp, SrtpReceiver } from "../wire/srtp/srtp.ts";
import type { SrtpCipher, SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import { createFanOutAlike, type FanOut, type FanOutAlike, fanOut } from "./fan-out.ts";
import type { Descriptor, SendBatch } from "./send-batch.ts";
import type { Take } from "./take.ts";
import type { Watch } from "./watch.ts";

/**
 * Sends the first `count` packets of the batch on the socket's descriptor. True: all are done with. Otherwise those that are
 * have a length of 0 afterwards, and the socket has to see to the others.
 */
export type SendDirectly = (socket: Descriptor, batch: SendBatch, count: number) => boolean;

export interface PacketPath {
  readonly name: "typescript" | "native";
  createCipher(master: SrtpMasterKey): SrtpCipher;
  createReceiver(master: SrtpMasterKey): IncomingSrtp;
  /** Many packets of a publisher by one call; null: each is opened by itself. */
  readonly take: Take | null;
  /** Waits at the socket in the place of the loop; null: the loop does. */
  readonly watch: Watch | null;
  readonly fanOut: FanOut;
  /** Copies may be put off, to be made for several packets at once: `finishAlike` makes those that were. */
  readonly fanOutAlike: FanOutAlike;
  readonly finishAlike: () => void;
  /** Null: the socket has to. */
  readonly send: SendDirectly | null;
  /** Forgets all keys. What is asked for afterwards is refused. */
  close(): void;
}

export const typescriptPath: PacketPath = {
  name: "typescript",
  createCipher: createSrtpCipher,
  createReceiver: (master) => new SrtpReceiver(master),
  take: null,
  watch: null,
  fanOut,
  fanOutAlike: createFanOutAlike(),
  finishAlike: () => {},
  send: null,
  close() {},
};
