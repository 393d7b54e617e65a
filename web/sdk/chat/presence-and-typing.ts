import type { ChatSignal, RoomJoinAck } from "../../../src/protocol/chat.ts";
import type { Presence, Typing } from "../../../src/protocol/chat-records.ts";
import type { Emitter } from "../../../src/protocol/data/emitter.ts";
import type { ConversationEvents } from "./conversation-events.ts";

type Signal = Exclude<ChatSignal, { type: "stream.updated" }>;

/** The members who are online and those who are typing. This state is never replayed. */
export class PresenceAndTyping {
  readonly #events: Emitter<ConversationEvents>;
  readonly #self: string;
  readonly #present = new Map<string, Presence>();
  readonly #typing = new Map<string, Typing>();

  constructor(events: Emitter<ConversationEvents>, self: string) {
    this.#events = events;
    this.#self = self;
  }

  get present(): readonly Presence[] {
    return [...this.#present.values()];
  }

  get typing(): readonly Typing[] {
    const now = Date.now();
    return [...this.#typing.values()].filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  }

  /** Replaces the state after a join. */
  replace({ presence, typing }: Pick<RoomJoinAck, "presence" | "typing">): void {
    const listed = new Set(presence.map(({ userId }) => userId));
    for (const { userId } of this.present) {
      if (!listed.has(userId)) this.#setPresence({ userId, status: "offline", at: new Date().toISOString() });
    }
    for (const entry of presence)
      if (this.#present.get(entry.userId)?.status !== entry.status) this.#setPresence(entry);
    this.#typing.clear();
    for (const entry of typing) if (entry.userId !== this.#self) this.#typing.set(entry.userId, entry);
    this.#events.emit("typingChanged", this.typing);
  }

  signal(signal: Signal): void {
    switch (signal.type) {
      case "presence": {
        const { userId, status, at } = signal;
        this.#setPresence({ userId, status: status as Presence["status"], at });
        break;
      }
      case "typing.started":
        if (signal.userId === this.#self) break;
        this.#typing.set(signal.userId, signal);
        this.#events.emit("typingChanged", this.typing);
        break;
      case "typing.stopped":
        if (this.#typing.delete(signal.userId)) this.#events.emit("typingChanged", this.typing);
        break;
      case "read":
        this.#events.emit("read", signal);
        break;
    }
  }

  #setPresence(presence: Presence): void {
    if (presence.status === "offline") this.#present.delete(presence.userId);
    else this.#present.set(presence.userId, presence);
    this.#events.emit("presenceChanged", presence);
  }
}

const TYPING_REPEAT_MS = 3_000;
const TYPING_IDLE_MS = 5_000;

/** Turns keystrokes into few frames: at most one `typing.start` in three seconds, and `typing.stop` after five idle ones. */
export class TypingThrottle {
  #sentAt = 0;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly send: (type: "typing.start" | "typing.stop") => void) {}

  start(): void {
    const now = Date.now();
    if (now - this.#sentAt >= TYPING_REPEAT_MS) {
      this.#sentAt = now;
      this.send("typing.start");
    }
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.stop(), TYPING_IDLE_MS);
  }

  stop(): void {
    clearTimeout(this.#idle);
    if (this.#sentAt === 0) return;
    this.#sentAt = 0;
    this.send("typing.stop");
  }

  close(): void {
    clearTimeout(this.#idle);
  }
}
