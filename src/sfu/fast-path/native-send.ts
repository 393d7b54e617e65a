// Sends a batch from the arena with one system call, on the descriptor of Bun's socket.

import type { SendDirectly } from "../forwarding/packet-path.ts";
import { DESTINATION_WORDS } from "../forwarding/send-batch.ts";
import { addressWords } from "../wire/rtp/address.ts";
import type { NativeEngine } from "./library.ts";

const ADDRESS_WORDS = 4;
/** Peers come and go: the table is begun anew rather than tended. */
const MAX_KNOWN_ADDRESSES = 4_096;

export function createNativeSend({ functions }: NativeEngine): SendDirectly {
  /** Packets to one peer as one, until the system says that it cannot. */
  const grouping = new Uint32Array([1]);
  /** Words with a sign: compiled code that meets one beyond 31 bits without it is thrown away. */
  const known = new Map<string, Int32Array | null>();

  const addressOf = (text: string): Int32Array | null => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= MAX_KNOWN_ADDRESSES) known.clear();
    const words = addressWords(text);
    const address = words && Int32Array.from(words);
    known.set(text, address);
    return address;
  };

  return ({ fd, isV6 }, batch, count) => {
    const { arena, addresses, located, destinations } = batch;
    let ready = 0;
    for (; ready < count; ready++) {
      if (located[ready] === 1) continue;
      const address = addressOf(addresses[ready] as string);
      if (address === null) break;
      for (let i = 0; i < ADDRESS_WORDS; i++) destinations[ready * DESTINATION_WORDS + i] = address[i] as number;
    }
    if (ready === 0) return false;
    const done = functions.stoa_send(fd, isV6 ? 1 : 0, arena, arena.length, destinations, ready, grouping) === 1;
    if (done && ready === count) return true;
    if (done) for (let i = 0; i < ready; i++) batch.done(i);
    return false;
  };
}
