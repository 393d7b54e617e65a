import type { ChatSignal, RoomJoinAck } from "../../../src/protocol/chat.ts";
import type { Presence, Typing } from "../../../src/protocol/chat-records.ts";
import type { Emitter } from "../emitter.ts";
import type { ConversationEvents } from "./conversation-events.ts";

type Signal = Exclude<ChatSignal, { type: "stream.updated" }>;

/** Who else is there and who is typing: true now, never replayed. */
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

  /** After a join or a rejoin: this is how it is, whatever was known before. */
  adopt({ presence, typing }: Pick<RoomJoinAck, "presence" | "typing">): void {
    const listed = new Set(presence.map(({ userId }) => userId));
    for (const { userId } of this.present) {
      if (!listed.has(userId)) this.#arrived({ userId, status: "offline", at: new Date().toISOString() });
    }
    for (const one of presence) if (this.#present.get(one.userId)?.status !== one.status) this.#arrived(one);
    this.#typing.clear();
    for (const one of typing) if (one.userId !== this.#self) this.#typing.set(one.userId, one);
    this.#events.emit("typingChanged", this.typing);
  }

  signal(signal: Signal): void {
    switch (signal.type) {
      case "presence": {
        const { userId, status, at } = signal;
        this.#arrived({ userId, status: status as Presence["status"], at });
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

  #arrived(presence: Presence): void {
    if (presence.status === "offline") this.#present.delete(presence.userId);
    else this.#present.set(presence.userId, presence);
    this.#events.emit("presenceChanged", presence);
  }
}
