/** The fast path by native code. fan-out.ts and wire/srtp are the reference for every byte that it writes. */
import { createGroupFanOut, type GroupFanOut, MAX_PACKET_BYTES } from "./fan-out.ts";
import type { FastPath, SendNatively } from "./fast-path.ts";
import { addressWords, type NativeEngine, openNativeEngine } from "./native-engine.ts";
import { NativeReceiveLoop } from "./native-receive-loop.ts";
import { NativeCipher, NativeReceiver } from "./native-srtp.ts";
import { DESTINATION_WORDS } from "./send-batch.ts";
import { ROW_WORDS } from "./subscriber-slot.ts";

export type NativePath = FastPath & {
  readonly receiveLoop: NativeReceiveLoop;
  /** The number of keys that were added and not yet removed. */
  liveCiphers(): number;
};

/** Throws when the library cannot be loaded here. */
export function openNativePath(libraryPath: string): NativePath {
  const native = openNativeEngine(libraryPath);
  const { functions } = native;
  return {
    name: "native",
    createCipher: (master) => new NativeCipher(native, master),
    createReceiver: (master, maxStreams) => new NativeReceiver(native, master, maxStreams),
    fanOutToGroup: createNativeGroupFanOut(native),
    send: createNativeSend(native),
    receiveLoop: new NativeReceiveLoop(native),
    liveCiphers: () => functions.stoa_live_ciphers(native.engine),
    close: () => {
      functions.stoa_close(native.engine);
      native.engine = null;
    },
  };
}

function createNativeGroupFanOut(native: NativeEngine): GroupFanOut {
  const inTypeScript = createGroupFanOut();
  return (packet, group, nowMs, batch) => {
    const { data, length, payloadOffset, payloadLength } = packet.view;
    const { slots, rows, addresses } = group.table;
    if (length > MAX_PACKET_BYTES) return;
    const { arena, destinations } = batch;
    // All subscribers of a group have the same codec, as they have the same source.
    const rewritesVp8 = (slots[0]?.vp8Offsets ?? null) === null ? 0 : 1;
    for (let done = 0; done < slots.length; ) {
      const count = Math.min(slots.length - done, batch.capacity - batch.count);
      const filled = native.functions.stoa_fan_out(
        native.engine,
        arena,
        arena.length,
        batch.count,
        destinations,
        data,
        length,
        payloadOffset,
        payloadLength,
        packet.extended,
        nowMs,
        rewritesVp8,
        done === 0 ? rows : rows.subarray(done * ROW_WORDS),
        count,
      );
      // A packet with more extension elements than native code has room for.
      if (filled === 0) return inTypeScript(packet, group, nowMs, batch);
      batch.commitFilled(addresses, done, count);
      done += count;
    }
  };
}

const ADDRESS_WORDS = 4;
/** Peers come and go, so the table is cleared when it is full. */
const MAX_KNOWN_ADDRESSES = 4_096;

function createNativeSend({ functions }: NativeEngine): SendNatively {
  /** 1 until the system refuses to send groups of packets. */
  const grouping = new Uint32Array([1]);
  /** The words are signed, because the JIT discards compiled code when it meets an unsigned word above 31 bits. */
  const known = new Map<string, Int32Array | null>();

  const wordsOf = (text: string): Int32Array | null => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= MAX_KNOWN_ADDRESSES) known.clear();
    const words = addressWords(text);
    const address = words && Int32Array.from(words);
    known.set(text, address);
    return address;
  };

  return ({ fd, isV6 }, batch, count) => {
    const { arena, addresses, hasAddress, destinations } = batch;
    let ready = 0;
    for (; ready < count; ready++) {
      if (hasAddress[ready] === 1) continue;
      const address = wordsOf(addresses[ready] as string);
      if (address === null) break;
      for (let i = 0; i < ADDRESS_WORDS; i++) destinations[ready * DESTINATION_WORDS + i] = address[i] as number;
    }
    if (ready === 0) return false;
    const isDone = functions.stoa_send(fd, isV6 ? 1 : 0, arena, arena.length, destinations, ready, grouping) === 1;
    if (isDone && ready === count) return true;
    if (isDone) for (let i = 0; i < ready; i++) batch.markSent(i);
    return false;
  };
}
