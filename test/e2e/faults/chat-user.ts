import { type Honest, persist, repeatedly } from "./honest.ts";
import type { Subject } from "./subject.ts";

export type Sent = { clientMessageId: string; messageId: string; seq: number; text: string; sender: string };
type Frame = { type: string; id?: string; seq?: number; [field: string]: unknown };

const ANSWER_WITHIN_MS = 6_000;
const PAUSE_MS = 40;
/** One in this many messages is edited and gets a reaction, so that other kinds of events occur in the same order. */
const CHANGE_EVERY = 10;

class Broken extends Error {}

/** One member of a conversation on the chat socket: sends one message after the other and follows what happens. */
export class ChatUser implements Honest {
  readonly name: string;
  readonly sent: Sent[] = [];
  /** Types of all events since it first joined, by their number; each is seen once, in its turn. */
  readonly seen: { seq: number; type: string }[] = [];
  readonly complaints: string[] = [];
  readonly stop: () => Promise<void>;
  reconnects = 0;
  firstSeq = 0;
  readonly #subject: Subject;
  readonly #room: string;
  readonly #address: () => string;
  readonly #waiting = new Map<string, PromiseWithResolvers<Frame>>();
  #socket: WebSocket | null = null;
  /** Pushes that arrived before the history was read. */
  #early: Frame[] | null = null;
  #seq: number | null = null;
  #epoch = "";
  #token = "";
  #next = 0;
  #requests = 0;

  constructor(subject: Subject, options: { userId: string; room: string; address: () => string }) {
    this.name = options.userId;
    this.#subject = subject;
    this.#room = options.room;
    this.#address = options.address;
    this.stop = repeatedly(() => this.#turn(), this.complaints);
  }

  get done(): number {
    return this.sent.length;
  }

  async #turn(): Promise<void> {
    try {
      await this.#connected();
      const text = `${this.name} says ${this.#next}`;
      const clientMessageId = `${this.name}-${this.#next}`;
      const { message } = await this.#ask("message.send", { room: this.#room, text, clientMessageId });
      const { id: messageId, seq } = message as { id: string; seq: number };
      this.sent.push({ clientMessageId, messageId, seq, text, sender: this.name });
      if (this.#next++ % CHANGE_EVERY === 0) {
        await this.#ask("reaction.add", { messageId, emoji: "👍" });
        await this.#ask("message.update", { messageId, metadata: { edited: true } });
      }
      await Bun.sleep(PAUSE_MS);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      await Bun.sleep(PAUSE_MS);
    }
  }

  /** Reads the conversation up to its last event, after all sends have ended, and leaves. */
  async leave(): Promise<void> {
    for (;;) {
      try {
        await this.#connected();
        await this.#ask("ping");
        this.#socket?.close();
        return;
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await Bun.sleep(PAUSE_MS);
      }
    }
  }

  async #connected(): Promise<void> {
    if (this.#socket) return;
    if (this.#token === "") {
      const body = { userId: this.name, ttlSeconds: 21_600 };
      this.#token = String((await persist(this.#subject, "POST", "/v1/chat/tokens", { body })).body.token);
      this.#subject.secrets.add(this.#token);
    }
    this.#socket = await this.#open();
    this.reconnects++;
    const since = this.#seq === null ? {} : { since: this.#seq, epoch: this.#epoch };
    this.#early = [];
    const joined = await this.#ask("room.join", { room: this.#room, ...since });
    this.#epoch = String(joined.epoch);
    if (this.#seq === null) this.firstSeq = this.#seq = Number(joined.seq);
    else if (joined.recovered) for (const event of joined.events as Frame[]) this.#take(event);
    else await this.#readMissed();
    const early = this.#early;
    this.#early = null;
    for (const event of early) if (Number(event.seq) > this.#seq) this.#take(event);
  }

  /** Reads events by REST that a join does not replay because there are too many. */
  async #readMissed(): Promise<void> {
    for (let more = true; more; ) {
      const path = `/v1/chat/conversations/${this.#room}/events?limit=200&after=${this.#seq}`;
      const { body } = await persist(this.#subject, "GET", path);
      for (const event of body.data as Frame[]) this.#take(event);
      more = body.hasMore === true;
    }
  }

  #open(): Promise<WebSocket> {
    const url = `${this.#address().replace(/^http/, "ws")}/v1/chat/ws?token=${this.#token}`;
    const socket = new WebSocket(url);
    const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
    const timer = setTimeout(() => this.#drop(socket, reject), ANSWER_WITHIN_MS);
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(String(data)) as Frame;
      if (frame.type === "connected") {
        clearTimeout(timer);
        resolve(socket);
      } else if (socket === this.#socket) this.#received(frame);
    };
    socket.onclose = ({ code }) => {
      clearTimeout(timer);
      // Never because of the clock: the token outlives every jump.
      if (code >= 4400 && code < 4500 && code !== 4408) this.complaints.push(`${this.name} was closed with ${code}`);
      this.#drop(socket, reject);
    };
    return promise;
  }

  #drop(socket: WebSocket, reject: (error: Error) => void): void {
    reject(new Broken());
    (socket as WebSocket & { terminate(): void }).terminate();
    if (socket !== this.#socket) return;
    this.#socket = null;
    for (const { reject: fail } of this.#waiting.values()) fail(new Broken());
    this.#waiting.clear();
  }

  async #ask(type: string, fields: object = {}): Promise<Frame> {
    const socket = this.#socket;
    if (!socket) throw new Broken();
    const id = `r${this.#requests++}`;
    const answer = Promise.withResolvers<Frame>();
    this.#waiting.set(id, answer);
    const timer = setTimeout(() => this.#drop(socket, answer.reject), ANSWER_WITHIN_MS);
    socket.send(JSON.stringify({ type, id, ...fields }));
    const frame = await answer.promise.finally(() => clearTimeout(timer));
    if (frame.type !== "error") return frame;
    // A disk that refuses is the server's trouble; everything else is an answer that should not have come.
    if (frame.code === "INTERNAL_ERROR" || frame.code === "STORAGE_FULL") throw new Broken();
    throw new Error(`${type} was refused: ${JSON.stringify(frame)}`);
  }

  #received(frame: Frame): void {
    const answers = frame.type === "ack" || frame.type === "error" || frame.type === "pong";
    if (answers) {
      this.#waiting.get(frame.id ?? "")?.resolve(frame);
      this.#waiting.delete(frame.id ?? "");
    } else if (frame.seq !== undefined && frame.type !== "read") {
      if (this.#early) this.#early.push(frame);
      else this.#take(frame);
    }
  }

  #take({ seq = 0, type }: Frame): void {
    if (this.#seq === null) return;
    if (seq !== this.#seq + 1) this.complaints.push(`${this.name} saw ${type} ${seq} after ${this.#seq}`);
    this.#seq = seq;
    this.seen.push({ seq, type });
  }
}
