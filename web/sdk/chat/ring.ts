import type { Metadata, Ring as RingRecord } from "../../../src/protocol/chat-records.ts";
import { Emitter } from "../../../src/protocol/data/emitter.ts";
import type { ChatProtocol } from "../protocol.ts";
import type { ReconnectingSocket } from "../reconnecting-socket.ts";

/** Options for `chat.ring`. */
export type RingOptions = {
  /** The members to call; all other members by default. */
  userIds?: string[];
  /** How long to ring; the server's default if omitted. */
  timeoutSeconds?: number;
  /** Data for the members who are called. */
  metadata?: Metadata;
};

/** The events of a ring and their arguments; listen with `ring.on(name, …)`. */
export type RingEvents = {
  /** A member has answered, declined or missed the ring. */
  changed: [record: RingRecord];
  /** The ring is over for this user: answered here or elsewhere, declined, missed or cancelled. */
  over: [record: RingRecord];
};

/** An invitation of a conversation's members into the call of its room. */
export class Ring extends Emitter<RingEvents> {
  /** The ring's record. */
  record: RingRecord;
  readonly #socket: ReconnectingSocket<ChatProtocol>;

  /** @internal */
  constructor(record: RingRecord, socket: ReconnectingSocket<ChatProtocol>) {
    super();
    this.record = record;
    this.#socket = socket;
  }

  /** The ring's `ring_` id. */
  get id(): string {
    return this.record.id;
  }

  /** The status of the whole ring; that of each member is in `record.members`. */
  get status(): RingRecord["status"] {
    return this.record.status;
  }

  /** Answers the ring on all devices of this user. Joining the room has the same effect. */
  async answer(): Promise<void> {
    this.update((await this.#socket.call("call.answer", { ringId: this.id })).ring);
  }

  /** Declines the ring on all devices of this user. */
  async decline(): Promise<void> {
    this.update((await this.#socket.call("call.decline", { ringId: this.id })).ring);
  }

  /** Cancels the ring; only the caller may. */
  async cancel(): Promise<void> {
    this.update((await this.#socket.call("call.cancel", { ringId: this.id })).ring);
  }

  /** @internal */
  update(record: RingRecord): void {
    this.record = record;
    this.emit("changed", record);
  }
}

/** The active rings of one user. */
export class Rings {
  readonly #active = new Map<string, Ring>();

  constructor(
    private readonly socket: ReconnectingSocket<ChatProtocol>,
    private readonly userId: () => string,
    private readonly onRinging: (ring: Ring) => void,
  ) {}

  get active(): readonly Ring[] {
    return [...this.#active.values()];
  }

  async start(room: string, options: RingOptions): Promise<Ring> {
    const { ring } = await this.socket.call("call.ring", { room, ...options });
    // The push for the ring may arrive before the acknowledgement.
    return this.#active.get(ring.id) ?? this.#add(ring);
  }

  update(record: RingRecord): void {
    const known = this.#active.get(record.id);
    const mine = record.members.find(({ userId }) => userId === this.userId());
    const isOver = record.endedAt !== null || (record.callerId !== this.userId() && mine?.status !== "RINGING");
    if (known) known.update(record);
    else if (!isOver) {
      const ring = this.#add(record);
      if (record.callerId !== this.userId()) this.onRinging(ring);
    }
    if (!isOver || !known) return;
    this.#active.delete(record.id);
    known.emit("over", record);
    known.removeAllListeners();
  }

  /** Reads the active rings again after a reconnection, because updates may have been missed. */
  async resume(read: (ringId: string) => Promise<RingRecord>): Promise<void> {
    await Promise.all(this.active.map(async ({ id }) => this.update(await read(id))));
  }

  close(): void {
    for (const ring of this.#active.values()) ring.removeAllListeners();
    this.#active.clear();
  }

  #add(record: RingRecord): Ring {
    const ring = new Ring(record, this.socket);
    this.#active.set(record.id, ring);
    return ring;
  }
}
