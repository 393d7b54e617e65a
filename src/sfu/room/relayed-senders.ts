/** The senders of data that are on other workers. How far readers here are behind reaches them through the control plane. */
import type { DataDropReason } from "../../protocol/signaling.ts";
import { DroppedData } from "./data-relay.ts";
import type { ParticipantHost } from "./host.ts";
import type { DataSender } from "./reliable-queue.ts";

/** More than a room has. With more than that, a sender may be told something twice. */
const MAX_SENDERS = 10_000;

export class RelayedSenders {
  readonly #senders = new Map<string, RelayedSender>();
  readonly #host: ParticipantHost;
  readonly #roomId: string;

  constructor(host: ParticipantHost, roomId: string) {
    this.#host = host;
    this.#roomId = roomId;
  }

  of(identity: string): DataSender {
    const known = this.#senders.get(identity);
    if (known) return known;
    if (this.#senders.size >= MAX_SENDERS) this.#senders.clear();
    const sender = new RelayedSender(this.#host, { roomId: this.#roomId, from: identity });
    this.#senders.set(identity, sender);
    return sender;
  }

  tick(nowMs: number): void {
    for (const sender of this.#senders.values()) sender.tick(nowMs);
  }
}

class RelayedSender implements DataSender {
  readonly #host: ParticipantHost;
  readonly #self: { roomId: string; from: string };
  readonly #dropped: DroppedData;

  constructor(host: ParticipantHost, self: { roomId: string; from: string }) {
    this.#host = host;
    this.#self = self;
    this.#dropped = new DroppedData(({ reader = "", messages, reason }) =>
      host.emit({ type: "relayedDataDropped", ...self, reader, messages, reason }),
    );
  }

  readerBehind(reader: string, bytes: number): void {
    this.#host.emit({ type: "relayedDataBehind", ...this.#self, reader, bytes });
  }

  readerLost(reader: string, messages: number, reason: DataDropReason = "slow_reader"): void {
    this.#dropped.add(reason, messages, reader);
  }

  tick(nowMs: number): void {
    this.#dropped.tick(nowMs);
  }
}
