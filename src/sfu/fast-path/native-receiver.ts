// SRTP and SRTCP of one connection, as received: indices, replay windows and keys are in native code, and a packet is opened
// by one call.

import type { LaneTable } from "../forwarding/lanes.ts";
import type { IncomingSrtp, SrtpRefusals } from "../wire/srtp/srtp.ts";
import type { SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import type { NativeEngine } from "./library.ts";
import { NativeCipher } from "./native-cipher.ts";
import type { NativeTake } from "./native-take.ts";

/** By the number that native.h has for them. */
const REASONS = [null, "malformed", "replayed", "unauthentic", "tooManyStreams"] as const;

export class NativeReceiver implements IncomingSrtp {
  readonly refusals: SrtpRefusals = { malformed: 0, replayed: 0, unauthentic: 0, tooManyStreams: 0 };
  readonly #native: NativeEngine;
  readonly #take: NativeTake;
  readonly #cipher: NativeCipher;
  #handle: number;

  constructor(native: NativeEngine, take: NativeTake, master: SrtpMasterKey) {
    this.#native = native;
    this.#take = take;
    this.#cipher = new NativeCipher(native, master);
    this.#handle = native.functions.stoa_add_receiver(native.engine, this.#cipher.handle);
    if (this.#handle !== 0) return;
    this.#cipher.close();
    throw new Error("no room for another receiver");
  }

  unprotectRtp(data: Uint8Array, length = data.length): number {
    const { functions, engine } = this.#native;
    return this.#outcome(functions.stoa_receive_rtp(engine, this.#handle, data, data.length, length));
  }

  unprotectRtcp(data: Uint8Array, length = data.length): number {
    const { functions, engine } = this.#native;
    return this.#outcome(functions.stoa_receive_rtcp(engine, this.#handle, data, data.length, length));
  }

  get handle(): number {
    return this.#handle;
  }

  refused(outcome: number): void {
    this.#outcome(outcome);
  }

  take(lanes: LaneTable<object>, from: number): number {
    const taken = this.#take.take(this.#handle, lanes, from);
    if (this.#take.outcome < 0) this.#outcome(this.#take.outcome);
    return taken;
  }

  #outcome(plain: number): number {
    if (plain >= 0) return plain;
    const reason = REASONS[-plain];
    if (reason) this.refusals[reason] += 1;
    return -1;
  }

  close(): void {
    this.#native.functions.stoa_remove_receiver(this.#native.engine, this.#handle);
    this.#handle = 0;
    this.#cipher.close();
  }
}
