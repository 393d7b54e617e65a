/** Chat users on sockets that stay open over all upgrades, and requests that post messages to them. */
import { until } from "../../nodes/remote/until.ts";
import type { Upgradable } from "../../ops/upgradable.ts";

const USERS_OF_A_CONVERSATION = 30;
const SENDERS = 4;
const POST_EVERY_MS = 100;
/** Clients come back spread over this time. */
const BACK_WITHIN_MS = 1_000;
const OPENED_AT_ONCE = 20;
/** On a busy machine messages are late, which is not a loss. */
const DELIVERED_WITHIN_MS = 20_000;
const EVENTS_OF_A_PAGE = 200;

type Message = { text: string };
// biome-ignore lint/suspicious/noExplicitAny: a frame is read field by field
type Frame = any;

class ChatUser {
  /** How often each message has arrived. */
  readonly arrived = new Map<string, number>();
  isIn = false;
  problem: string | null = null;
  /** How often the answer to a join did not have everything. */
  reads = 0;
  #seq = 0;
  #epoch = "";
  #socket: WebSocket | null = null;
  #hasLeft = false;

  constructor(
    readonly url: string,
    readonly token: string,
    readonly conversation: string,
  ) {
    this.#open();
  }

  #open(): void {
    const address = `${this.url.replace(/^http/, "ws")}/v1/chat/ws?token=${encodeURIComponent(this.token)}`;
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(String(data)));
    socket.onclose = () => {
      this.isIn = false;
      if (!this.#hasLeft) setTimeout(() => this.#open(), Math.random() * BACK_WITHIN_MS);
    };
    socket.onopen = () => {
      const since = this.#epoch === "" ? {} : { since: this.#seq, epoch: this.#epoch };
      socket.send(JSON.stringify({ type: "room.join", id: "join", room: this.conversation, ...since }));
    };
  }

  #receive(frame: Frame): void {
    if (frame.type === "message") this.#arrived(frame);
    if (frame.id !== "join") return;
    if (frame.type === "error") {
      this.problem = `a chat user cannot join: ${JSON.stringify(frame)}`;
      return;
    }
    const since = this.#seq;
    if (this.#epoch === "") this.#seq = frame.seq;
    else if (!frame.recovered) void this.#readFrom(since, frame.seq);
    this.#epoch = frame.epoch;
    this.isIn = true;
    for (const event of frame.events ?? []) if (event.type === "message") this.#arrived(event);
  }

  /** Reads what is too much for the answer to a join, as the server asks for. */
  async #readFrom(since: number, until: number): Promise<void> {
    this.reads++;
    for (let after = since; after < until; ) {
      const url = `${this.url}/v1/chat/conversations/${this.conversation}/events?after=${after}&limit=${EVENTS_OF_A_PAGE}`;
      const response = await fetch(url, { headers: { authorization: `Bearer ${this.token}` } });
      const { data } = (await response.json()) as Frame;
      if (!data || data.length === 0) return;
      for (const event of data) if (event.type === "message" && event.seq <= until) this.#arrived(event);
      after = data.at(-1).seq;
    }
  }

  #arrived({ seq, message }: { seq: number; message: Message }): void {
    this.#seq = Math.max(this.#seq, seq);
    this.arrived.set(message.text, (this.arrived.get(message.text) ?? 0) + 1);
  }

  leave(): void {
    this.#hasLeft = true;
    this.#socket?.close();
  }
}

export type Requests = { refused: string[]; longestMs: number };

export class ChatUsers {
  readonly #users: ChatUser[] = [];
  readonly #conversations: { id: string; poster: string; posted: string[] }[] = [];

  static async open(host: Upgradable, count: number): Promise<ChatUsers> {
    const chat = new ChatUsers(host.server.url);
    const tokenOf = async (userId: string) =>
      (await host.server.call("POST", "/v1/chat/tokens", { userId })).body.token as string;
    for (let from = 0; from < count; from += USERS_OF_A_CONVERSATION) {
      const ids = Array.from({ length: Math.min(USERS_OF_A_CONVERSATION, count - from) }, (_, i) => `user-${from + i}`);
      const id = await host.server.conversation(`conversation-${from}`, ...ids);
      for (let at = 0; at < ids.length; at += OPENED_AT_ONCE) {
        const tokens = await Promise.all(ids.slice(at, at + OPENED_AT_ONCE).map(tokenOf));
        chat.#users.push(...tokens.map((token) => new ChatUser(host.server.url, token, id)));
      }
      chat.#conversations.push({ id, poster: await tokenOf(ids[0] ?? ""), posted: [] });
    }
    await chat.allIn();
    return chat;
  }

  private constructor(readonly url: string) {}

  async allIn(): Promise<void> {
    await until(() => {
      const problem = this.#users.find((user) => user.problem !== null)?.problem;
      if (problem) throw new Error(problem);
      return this.#users.every(({ isIn }) => isIn);
    });
  }

  get posted(): number {
    return this.#conversations.reduce((sum, { posted }) => sum + posted.length, 0);
  }

  /** Requests on connections that stay open, and on new ones, until `stop`. */
  post(round: number): { stop(): Promise<Requests> } {
    const refused: string[] = [];
    let [longestMs, isStopped] = [0, false];
    const send = async (sender: number) => {
      const headers: Record<string, string> = sender % 2 ? { connection: "close" } : {};
      for (let i = sender; !isStopped; i += SENDERS) {
        const conversation = this.#conversations[i % this.#conversations.length];
        if (!conversation) return;
        const text = `message ${i} of round ${round}`;
        const at = performance.now();
        const problem = await this.#send(conversation, text, headers);
        longestMs = Math.max(longestMs, performance.now() - at);
        if (problem === null) conversation.posted.push(text);
        else refused.push(problem);
        await Bun.sleep(POST_EVERY_MS);
      }
    };
    const sending = Array.from({ length: SENDERS }, (_, i) => send(i));
    return {
      async stop() {
        isStopped = true;
        await Promise.all(sending);
        return { refused, longestMs };
      },
    };
  }

  async #send({ id, poster }: { id: string; poster: string }, text: string, headers: Record<string, string>) {
    try {
      const response = await fetch(`${this.url}/v1/chat/conversations/${id}/messages`, {
        method: "POST",
        headers: { authorization: `Bearer ${poster}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ type: "text", text }),
      });
      const answer = await response.text();
      return response.status === 201 ? null : `${response.status} ${answer}`;
    } catch (error) {
      return String(error);
    }
  }

  /** Waits until everyone has had the time for what was posted; counts what arrived never or several times, and begins anew. */
  async count(): Promise<{ deliveries: number; lost: number; duplicated: number; reads: number }> {
    const counted = { deliveries: 0, lost: 0, duplicated: 0, reads: 0 };
    const postedIn = new Map(this.#conversations.map(({ id, posted }) => [id, posted]));
    const lacks = () => this.#users.some((user) => user.arrived.size < (postedIn.get(user.conversation)?.length ?? 0));
    const lateAt = performance.now() + DELIVERED_WITHIN_MS;
    while (lacks() && performance.now() < lateAt) await Bun.sleep(20);
    for (const user of this.#users) {
      const { arrived, conversation } = user;
      const posted = postedIn.get(conversation) ?? [];
      counted.deliveries += posted.length;
      counted.lost += posted.filter((text) => !arrived.has(text)).length;
      for (const times of arrived.values()) counted.duplicated += times - 1;
      counted.reads += user.reads;
      user.reads = 0;
      arrived.clear();
    }
    for (const conversation of this.#conversations) conversation.posted.length = 0;
    return counted;
  }

  leave(): void {
    for (const user of this.#users) user.leave();
  }
}
