import { type Chat, connectChat } from "../../web/sdk/index.ts";
import type { Group } from "./group.ts";
import type { Acknowledged, Heard, Read, Stored, Verdict } from "./history.ts";
import { judge } from "./history.ts";

const ROOM = "history";

/** The SDK is made for pages, and those have an address. */
export function giveAddress(): () => void {
  Object.assign(globalThis, { location: new URL("http://127.0.0.1/") });
  return () => void Reflect.deleteProperty(globalThis, "location");
}

/** SDK clients that send, listen and read through the balancer, and a history of what they saw. */
export class Load {
  readonly acknowledged: Acknowledged[] = [];
  readonly reads: Read[] = [];
  readonly heard: Heard[][] = [];
  /** Errors that a client was shown and that it may not try again. */
  readonly refused: string[] = [];
  /** Answers to requests that were neither given nor to be asked for again. */
  readonly failed: string[] = [];
  /** The longest time that a reader, which retries when told to, went without a response. */
  longestRefusedMs = 0;
  readonly #chats: Chat[] = [];
  readonly #running: Promise<void>[] = [];
  #stopping = false;

  private constructor(private readonly group: Group) {}

  /** `fronts`: the servers to which clients connect in rotation, instead of the stand-in for a load balancer. */
  static async start(
    group: Group,
    { senders = 4, listeners = 2, inFlight = 4, fronts = [group.front] } = {},
  ): Promise<Load> {
    const load = new Load(group);
    group.whenClosed(() => load.close());
    const users = Array.from({ length: senders + listeners }, (_, n) => `user-${n}`);
    await untilDone(() =>
      group.call("POST", "/v1/chat/conversations", { name: ROOM, members: users.map((userId) => ({ userId })) }),
    );
    for (const [n, userId] of users.entries()) {
      const { body } = await untilDone(() => group.call("POST", "/v1/chat/tokens", { userId, ttlSeconds: 21_600 }));
      const front = fronts[n % fronts.length] ?? group.front;
      const chat = await connectChat(`${front.replace("http", "ws")}/v1/chat/ws`, body.token);
      load.#chats.push(chat);
      const conversation = await chat.join(ROOM, { history: 0 });
      if (n < senders) {
        for (let lane = 0; lane < inFlight; lane++) load.#running.push(load.#send(conversation, `${n}-${lane}`));
      } else {
        const heard: Heard[] = [];
        load.heard.push(heard);
        conversation.on("message", ({ seq }) => heard.push(seq));
        conversation.on("reset", () => heard.push("reset"));
      }
    }
    load.#running.push(load.#read());
    return load;
  }

  get count(): number {
    return this.acknowledged.length;
  }

  /** Resolves once `count` more messages were acknowledged. */
  async more(count: number): Promise<void> {
    const until = this.count + count;
    while (this.count < until) await Bun.sleep(20);
  }

  /** Resolves once every client has noticed that no server answers. */
  async cutOff(): Promise<void> {
    while (this.#chats.some(({ state }) => state === "CONNECTED")) await Bun.sleep(50);
  }

  /** Ends the clients and judges their history by what the group holds. */
  async finish(): Promise<Verdict> {
    this.#stopping = true;
    await Promise.all(this.#running);
    const { messages, events } = await this.#stored();
    const newest = messages.at(-1)?.seq ?? 0;
    // Clients that were disconnected have to get the rest; a test that waits in vain fails at its time limit.
    for (const heard of this.heard) while (!heard.includes(newest) && heard.at(-1) !== "reset") await Bun.sleep(20);
    this.close();
    return judge(this, messages, events);
  }

  close(): void {
    this.#stopping = true;
    for (const chat of this.#chats.splice(0)) chat.close();
  }

  async #send(conversation: Awaited<ReturnType<Chat["join"]>>, lane: string): Promise<void> {
    for (let n = 0; !this.#stopping; n++) {
      const id = `${lane}-${n}`;
      try {
        const { seq } = await conversation.send({ text: id, clientMessageId: id });
        this.acknowledged.push({ id, seq, at: performance.now() });
      } catch (error) {
        this.refused.push(String(error));
        await Bun.sleep(20);
      }
    }
  }

  async #read(): Promise<void> {
    let answeredAt = performance.now();
    while (!this.#stopping) {
      const from = performance.now();
      const reply = await this.group.call("GET", `/v1/chat/conversations/${ROOM}/messages?limit=1`).catch(() => null);
      if (reply?.status === 200) {
        this.reads.push({ newest: reply.body.data[0]?.seq ?? 0, from });
        this.longestRefusedMs = Math.max(this.longestRefusedMs, performance.now() - answeredAt);
        answeredAt = performance.now();
      } else if (reply !== null && !mayTryAgain(reply)) this.failed.push(`${reply.status} ${reply.body?.code}`);
      await Bun.sleep(20);
    }
  }

  async #stored(): Promise<{ messages: Stored[]; events: number[] }> {
    const messages: Stored[] = [];
    for (let before = ""; ; ) {
      const { body } = await untilDone(() =>
        this.group.call("GET", `/v1/chat/conversations/${ROOM}/messages?limit=100${before}`),
      );
      for (const { clientMessageId, seq } of body.data) messages.push({ id: clientMessageId, seq });
      if (!body.hasMore) break;
      before = `&before=${body.nextCursor}`;
    }
    const events: number[] = [];
    for (let after = "0"; after !== ""; ) {
      const { body } = await untilDone(() =>
        this.group.call("GET", `/v1/chat/conversations/${ROOM}/events?limit=200&after=${after}`),
      );
      for (const { seq } of body.data) events.push(seq);
      after = body.nextCursor ?? "";
    }
    return { messages: messages.sort((a, b) => a.seq - b.seq), events };
  }
}

function mayTryAgain({ status, body }: { status: number; body: { retryAfterSeconds?: number } | null }): boolean {
  return status === 503 && body?.retryAfterSeconds !== undefined;
}

/** During a take-over a request is told to retry. */
export async function untilDone<Reply extends { status: number }>(ask: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await ask().catch(() => null);
    if (reply !== null && reply.status < 500) return reply;
    await Bun.sleep(50);
  }
}
