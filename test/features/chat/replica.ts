import { ChatClient, type Frame } from "./client.ts";
import type { Body } from "./world.ts";

export type State = { conversation: Body; messages: Map<string, Body>; members: Map<string, Body> };

/** Applies an event like an SDK, in its shortest form: every event contains the resulting state. */
export function apply(state: State, event: Body): void {
  const change = (id: string, fields: Body) => {
    const known = state.messages.get(id);
    if (known) state.messages.set(id, { ...known, ...fields });
  };
  switch (event.type) {
    case "message":
    case "message.updated":
      state.messages.set(event.message.id, event.message);
      break;
    case "message.deleted":
      change(event.messageId, {
        deleted: true,
        deletedAt: event.deletedAt,
        updatedAt: event.deletedAt,
        text: null,
        metadata: null,
        attachment: null,
        reactions: [],
        pinned: false,
      });
      break;
    case "reaction.added":
    case "reaction.removed":
      change(event.messageId, { reactions: event.reactions });
      break;
    case "member.joined":
    case "member.updated":
      state.members.set(event.userId, event.member);
      break;
    case "member.left":
      state.members.delete(event.userId);
      break;
    case "conversation.updated":
      state.conversation = event.conversation;
      break;
  }
  if (event.thread) change(event.thread.rootId, { replyCount: event.thread.replyCount });
}

type ReplicaDeps = {
  url: string;
  token: string;
  room: string;
  /** Reads everything again, as a client does whose resume was refused. */
  readAll: () => Promise<State & { seq: number }>;
};

/** A client that keeps a copy of one conversation over any number of connections. */
export class Replica {
  state: State = { conversation: null, messages: new Map(), members: new Map() };
  /** Numbers of the events applied, in the order in which they came. */
  readonly seen: number[] = [];
  recoveries = 0;
  rereads = 0;
  client: ChatClient | null = null;
  #seq: number | null = null;
  #epoch: string | undefined;
  #read = 0;
  #connecting: Promise<void> | null = null;

  constructor(private readonly deps: ReplicaDeps) {}

  get seq(): number {
    return this.#seq ?? 0;
  }

  /** Once at a time; what is being connected cannot be dropped. */
  connect(): Promise<void> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #connect(): Promise<void> {
    if (this.client) return;
    const { url, token, room } = this.deps;
    const client = await ChatClient.open(url, token);
    this.#read = 0;
    const since = this.#seq === null ? {} : { since: this.#seq, epoch: this.#epoch };
    const ack = await client.ask("room.join", { room, ...since });
    if (ack.type !== "ack") throw new Error(JSON.stringify(ack));
    this.#epoch = String(ack.epoch);
    if (this.#seq === null || !ack.recovered) {
      this.rereads += 1;
      const { seq, ...state } = await this.deps.readAll();
      this.state = state;
      this.#seq = seq;
    } else {
      this.recoveries += 1;
      for (const event of ack.events as Frame[]) this.#take(event);
    }
    this.client = client;
    this.drain();
  }

  /** Applies the new events; those that the history contains already are skipped. */
  drain(): void {
    const frames = this.client?.frames ?? [];
    for (; this.#read < frames.length; this.#read += 1) {
      const frame = frames[this.#read];
      if (frame?.seq !== undefined && frame.type !== "ack" && frame.type !== "read") this.#take(frame);
    }
  }

  drop(clean: boolean): void {
    if (this.#connecting) return;
    this.drain();
    if (clean) void this.client?.close();
    else this.client?.drop();
    this.client = null;
  }

  async settle(): Promise<void> {
    await this.client?.settled();
    this.drain();
  }

  #take(event: Frame): void {
    const { seq = 0 } = event;
    if (seq <= this.seq) {
      if (this.seen.includes(seq)) throw new Error(`event ${seq} came twice`);
      return;
    }
    if (seq !== this.seq + 1) throw new Error(`a gap: ${seq} after ${this.seq}`);
    this.#seq = seq;
    this.seen.push(seq);
    apply(this.state, event);
  }
}
