// Sends a batch from the arena with one system call, on the descriptor of Bun's socket.

import ipaddr from "ipaddr.js";
import { SEND_BATCH_PACKETS } from "../packet/send-batch.ts";
import type { SendDirectly } from "../packet-path.ts";
import type { NativeEngine } from "./library.ts";

/** `destination` in send.c: 16 bytes of address, scope, then port and length in the byte order of the machine. */
const DESTINATION_BYTES = 24;
const ADDRESS_WORDS = 4;
/** Peers come and go: the table is begun anew rather than tended. */
const MAX_KNOWN_ADDRESSES = 4_096;

export function createNativeSend({ functions }: NativeEngine): SendDirectly {
  const table = new ArrayBuffer(SEND_BATCH_PACKETS * DESTINATION_BYTES);
  const words = new Uint32Array(table);
  const shorts = new Uint16Array(table);
  const bytes = new Uint8Array(table);
  /** Packets to one peer as one, until the system says that it cannot. */
  const grouping = new Uint32Array([1]);
  const known = new Map<string, Uint32Array | null>();

  const addressOf = (text: string): Uint32Array | null => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= MAX_KNOWN_ADDRESSES) known.clear();
    const address = parseAddress(text);
    known.set(text, address);
    return address;
  };

  return (fd, batch, count) => {
    const { arena, lengths, ports, addresses } = batch;
    let ready = 0;
    for (; ready < count; ready++) {
      const address = addressOf(addresses[ready] as string);
      if (address === null) break;
      const word = (ready * DESTINATION_BYTES) / 4;
      for (let i = 0; i < ADDRESS_WORDS; i++) words[word + i] = address[i] as number;
      shorts[lengthAt(ready) - 1] = ports[ready] as number;
      shorts[lengthAt(ready)] = lengths[ready] as number;
    }
    if (ready === 0) return false;
    const done = functions.stoa_send(fd, arena, arena.length, bytes, ready, grouping) === 1;
    if (done && ready === count) return true;
    for (let i = 0; i < ready; i++) if (done || shorts[lengthAt(i)] === 0) lengths[i] = 0;
    return false;
  };
}

/** Among 16-bit words; the port is the one before. */
function lengthAt(slot: number): number {
  return (slot * DESTINATION_BYTES) / 2 + 11;
}

/** Null for what only the socket itself can read: an address of one network link (`fe80::1%eth0`). */
function parseAddress(text: string): Uint32Array | null {
  if (text.includes("%") || !ipaddr.isValid(text)) return null;
  const address = ipaddr.parse(text);
  const v6 = address instanceof ipaddr.IPv4 ? address.toIPv4MappedAddress() : address;
  return new Uint32Array(Uint8Array.from(v6.toByteArray()).buffer);
}
