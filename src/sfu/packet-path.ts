/** How packets are protected, copied and sent: in TypeScript, everywhere, or by native code, where there is some. */
import { type FanOut, fanOut } from "./packet/fan-out.ts";
import type { SendBatch } from "./packet/send-batch.ts";
import { createSrtpCipher } from "./packet/srtp.ts";
import type { SrtpCipher } from "./packet/srtp-cipher.ts";
import type { SrtpMasterKey } from "./packet/srtp-keys.ts";

export interface PacketPath {
  readonly name: "typescript" | "native";
  createCipher(master: SrtpMasterKey): SrtpCipher;
  readonly fanOut: FanOut;
  /** Sends from the socket's descriptor; returns how many of the first `count` packets are done with. Null: the socket has to. */
  readonly send: ((fd: number, batch: SendBatch, count: number) => number) | null;
  /** Forgets all keys. What is asked for afterwards is refused. */
  close(): void;
}

export const typescriptPath: PacketPath = {
  name: "typescript",
  createCipher: createSrtpCipher,
  fanOut,
  send: null,
  close() {},
};
