/** A simulated bad network between the server and one client, for development: the switch of the playground. */

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
  /** All packets are dropped, including connectivity checks. */
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

  /** Receives a packet from the client, and copies it. */
  up(data: Uint8Array, deliver: Parcel["deliver"]): void {
    this.#up.push({ data: Buffer.from(data), deliver }, data.length, this.#now());
  }

  /** Sends a packet to the client, and copies it. */
  down(data: Uint8Array, deliver: Parcel["deliver"]): void {
    this.#down.push({ data: Buffer.from(data), deliver }, data.length, this.#now());
  }

  tick(nowMs: number): void {
    for (const { data, deliver } of this.#up.takeDue(nowMs)) deliver(data);
    for (const { data, deliver } of this.#down.takeDue(nowMs)) deliver(data);
  }
}
