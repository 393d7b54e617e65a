import type { Sent } from "./chat-user.ts";
import { type Honest, persist, repeatedly } from "./honest.ts";
import type { Subject } from "./subject.ts";

export type Made = { id: string; name: string };

const PAUSE_MS = 50;

/** A developer's backend: makes rooms, tokens, conversations, messages and streams, and knows what was acknowledged. */
export class RestUser implements Honest {
  readonly name: string;
  readonly rooms: Made[] = [];
  readonly closedRooms: string[] = [];
  readonly rtcTokens: string[] = [];
  readonly conversations: Made[] = [];
  readonly streams: Made[] = [];
  readonly sent: Sent[] = [];
  readonly complaints: string[] = [];
  readonly stop: () => Promise<void>;
  done = 0;
  readonly #subject: Subject;
  readonly #room: string;
  #next = 0;

  constructor(subject: Subject, name: string, room: string) {
    this.name = name;
    this.#subject = subject;
    this.#room = room;
    this.stop = repeatedly(() => this.#turn(), this.complaints);
  }

  async #turn(): Promise<void> {
    const n = this.#next++;
    const name = `${this.name}-${n}`;
    const roomId = await this.#make(this.rooms, "/v1/rooms", name, { name });
    await this.#mint(roomId, name);
    await this.#send(name);
    if (n % 3 === 0) await this.#make(this.conversations, "/v1/chat/conversations", name, { name });
    if (n % 3 === 1) await this.#make(this.streams, "/v1/live-streams", name, { title: name, hostIdentity: "host" });
    if (n % 3 === 2) {
      await persist(this.#subject, "DELETE", `/v1/rooms/${roomId}`);
      this.closedRooms.push(roomId);
    }
    this.done++;
    await Bun.sleep(PAUSE_MS);
  }

  /** The same key for every try: however often it is asked for, it is made once. */
  async #make(list: Made[], path: string, name: string, body: object): Promise<string> {
    const answer = await persist(this.#subject, "POST", path, { body, headers: { "idempotency-key": name } });
    const id = String(answer.body.id);
    list.push({ id, name });
    return id;
  }

  async #mint(roomId: string, participantIdentity: string): Promise<void> {
    const body = { participantIdentity, ttlSeconds: 21_600 };
    const answer = await persist(this.#subject, "POST", `/v1/rooms/${roomId}/rtc-tokens`, { body });
    this.rtcTokens.push(String(answer.body.tokenId));
    this.#subject.secrets.add(String(answer.body.token));
  }

  async #send(clientMessageId: string): Promise<void> {
    const text = `${clientMessageId} by REST`;
    const body = { text, clientMessageId, senderId: this.name };
    const answer = await persist(this.#subject, "POST", `/v1/chat/conversations/${this.#room}/messages`, { body });
    const { id, seq } = answer.body as { id: string; seq: number };
    this.sent.push({ clientMessageId, messageId: id, seq, text, sender: this.name });
  }
}
