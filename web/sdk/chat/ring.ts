import type { Metadata, Ring as RingRecord } from "../../../src/protocol/chat-records.ts";
import type { ChatProtocol } from "../protocol.ts";
import { Emitter } from "../emitter.ts";
import type { ReconnectingSocket } from "../reconnecting-socket.ts";

/** For `chat.ring`. */
export type RingOptions = {
  /** Members to ring; everybody else of the conversation when left out. */
  userIds?: string[];
  /** How long it rings; the server's choice when left out. */
  timeoutSeconds?: number;
  /** Shown to those who are rung. */
  metadata?: Metadata;
};

/** What a ring tells of; listen with `ring.on(name, …)`. */
export type RingEvents = {
  /** Somebody answered, declined or missed it. */
  changed: [record: RingRecord];
  /** It is over for this user: answered here or elsewhere, declined, missed or cancelled. */
  over: [record: RingRecord];
};

/** Somebody asks members of a conversation into the call of its room. */
export class Ring extends Emitter<RingEvents> {
  /** As the server has it. */
  record: RingRecord;
  readonly #socket: ReconnectingSocket<ChatProtocol>;

  /** @internal */
  constructor(record: RingRecord, link: ReconnectingSocket<ChatProtocol>) {
    super();
    this.record = record;
    this.#socket = link;
  }

  /** Its `ring_` id. */
  get id(): string {
    return this.record.id;
  }

  /** Of all of it; each member has a state of their own in `record.members`. */
  get status(): RingRecord["status"] {
    return this.record.status;
  }

  /** Takes it, for every device of this user. Joining the room does the same. */
  async answer(): Promise<void> {
    this.update((await this.#socket.call("call.answer", { ringId: this.id })).ring);
  }

  /** Refuses it, for every device of this user. */
  async decline(): Promise<void> {
    this.update((await this.#socket.call("call.decline", { ringId: this.id })).ring);
  }

  /** Takes it back; for whoever rang. */
  async cancel(): Promise<void> {
    this.update((await this.#socket.call("call.cancel", { ringId: this.id })).ring);
  }

  /** @internal */
  update(record: RingRecord): void {
    this.record = record;
    this.emit("changed", record);
  }
}

/** The rings of one user that go on. */
export class Rings {
  readonly #open = new Map<string, Ring>();

  constructor(
    private readonly socket: ReconnectingSocket<ChatProtocol>,
    private readonly userId: () => string,
    private readonly onRinging: (ring: Ring) => void,
  ) {}

  get open(): readonly Ring[] {
    return [...this.#open.values()];
  }

  async start(room: string, options: RingOptions): Promise<Ring> {
    const { ring } = await this.socket.call("call.ring", { room, ...options });
    // Its push may have come before the answer.
    return this.#open.get(ring.id) ?? this.#keep(ring);
  }

  update(record: RingRecord): void {
    const known = this.#open.get(record.id);
    const mine = record.members.find(({ userId }) => userId === this.userId());
    const isOver = record.endedAt !== null || (record.callerId !== this.userId() && mine?.status !== "RINGING");
    if (known) known.update(record);
    else if (!isOver) {
      const ring = this.#keep(record);
      if (record.callerId !== this.userId()) this.onRinging(ring);
    }
    if (!isOver || !known) return;
    this.#open.delete(record.id);
    known.emit("over", record);
    known.removeAllListeners();
  }

  /** After a reconnect: what became of those that went on, in case it was missed. */
  async resume(read: (ringId: string) => Promise<RingRecord>): Promise<void> {
    await Promise.all(this.open.map(async ({ id }) => this.update(await read(id))));
  }

  close(): void {
    for (const ring of this.#open.values()) ring.removeAllListeners();
    this.#open.clear();
  }

  #keep(record: RingRecord): Ring {
    const ring = new Ring(record, this.socket);
    this.#open.set(record.id, ring);
    return ring;
  }
}
