/** A bad network between the server and one client, for development: what the playground's switch turns on. */

import { Impairment, type ImpairmentOptions } from "../../kernel/net/impairment.ts";
import type { NetworkProfile } from "../../protocol/playground.ts";

const PROFILES: Record<NetworkProfile, ImpairmentOptions> = {
  none: {},
  loss: { lossRatio: 0.08 },
  lag: { delayMs: 150, jitterMs: 80 },
  narrow: { bandwidthBitsPerSecond: 300_000, queueBytes: 20_000 },
  offline: { lossRatio: 1 },
};

type Parcel = { data: Buffer; deliver: (data: Buffer) => void };

export class BadNetwork {
  /** Nothing gets through, connectivity checks included. */
  readonly isDown: boolean;
  readonly #up: Impairment<Parcel>;
  readonly #down: Impairment<Parcel>;
  readonly #now: () => number;

  constructor(profile: NetworkProfile, now: () => number) {
    this.isDown = profile === "offline";
    this.#now = now;
    this.#up = new Impairment(1, PROFILES[profile]);
    this.#down = new Impairment(2, PROFILES[profile]);
  }

  /** From the client; the bytes are copied. */
  up(data: Uint8Array, deliver: Parcel["deliver"]): void {
    this.#up.push({ data: Buffer.from(data), deliver }, data.length, this.#now());
  }

  /** To the client; the bytes are copied. */
  down(data: Uint8Array, deliver: Parcel["deliver"]): void {
    this.#down.push({ data: Buffer.from(data), deliver }, data.length, this.#now());
  }

  tick(nowMs: number): void {
    for (const { data, deliver } of this.#up.takeDue(nowMs)) deliver(data);
    for (const { data, deliver } of this.#down.takeDue(nowMs)) deliver(data);
  }
}
