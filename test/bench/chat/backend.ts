import { MARK, type WireClient } from "./wire.ts";

/** A chat server under measurement: rooms, members, a message that is acknowledged and delivered. */
export type Backend = {
  name: string;
  /** Whether an acknowledgement means that the message is on disk. */
  durable: boolean;
  pid: number;
  /** Other processes that take part in it. */
  besides?: readonly number[];
  /** Called before any client connects. */
  prepare(rooms: readonly string[], users: readonly { userId: string; room: string }[]): Promise<void>;
  connect(userId: string, room: string): Promise<Talker>;
  stop(): Promise<void>;
};

/** One connected user in one room. */
export type Talker = {
  wire: WireClient;
  /** Resolves when the server has acknowledged. */
  send(text: string): Promise<void>;
  /** Each text of the room, one's own included. */
  onMessage: (text: string) => void;
};

/** The text of a message: when it was sent, who sent it, and padding to a usual length. */
export function stamped(sender: number, number: number): string {
  return `${MARK}${performance.now()} ${sender} ${number}${MARK} the quick brown fox jumps over the lazy dog, again and again`;
}

type Stamp = { sentAt: number; sender: number; number: number };

export function stampOf(frame: string): Stamp | null {
  const start = frame.indexOf(MARK);
  if (start < 0) return null;
  const [sentAt = 0, sender = 0, number = 0] = frame
    .slice(start + 1, frame.indexOf(MARK, start + 1))
    .split(" ")
    .map(Number);
  return { sentAt, sender, number };
}

/** Waits for the answers of a protocol by their ids. */
export function answers() {
  const waiting = new Map<string, () => void>();
  return {
    wait: (id: string): Promise<void> => new Promise((resolve) => void waiting.set(id, resolve)),
    arrived(id: string): void {
      waiting.get(id)?.();
      waiting.delete(id);
    },
  };
}
