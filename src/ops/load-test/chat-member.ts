/** A member of a conversation without a browser. */
import type { ChatErrorFrame, ChatServerFrame } from "../../protocol/chat.ts";

type Listener = (text: string, seq: number) => void;

export class ChatMember {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, { resolve(): void; reject(error: Error): void }>();
  readonly #connected = Promise.withResolvers<void>();
  readonly #onMessage: Listener;
  #heartbeat: Timer | null = null;
  #nextId = 1;

  static async join(url: string, token: string, room: string, onMessage: Listener = () => {}): Promise<ChatMember> {
    const member = new ChatMember(url, token, onMessage);
    await member.#connected.promise;
    await member.request("room.join", { room });
    return member;
  }

  private constructor(url: string, token: string, onMessage: Listener) {
    this.#onMessage = onMessage;
    this.#socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/chat/ws`, [`token.${token}`]);
    this.#socket.onmessage = ({ data }) => this.#received(JSON.parse(String(data)));
    this.#socket.onclose = ({ code }) => this.#closed(code);
    this.#connected.promise.catch(() => {});
  }

  /** Resolves with the acknowledgement; an error frame rejects with its code. */
  request(type: string, fields: object = {}): Promise<void> {
    const id = String(this.#nextId++);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (this.#socket.readyState !== WebSocket.OPEN) reject(new Error("CLOSED"));
    else {
      this.#waiting.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ type, id, ...fields }));
    }
    return promise;
  }

  close(): void {
    this.#socket.close();
  }

  #received(frame: ChatServerFrame): void {
    switch (frame.type) {
      case "message":
        this.#onMessage(frame.message.text ?? "", frame.seq);
        break;
      case "connected":
        this.#heartbeat = setInterval(() => void this.request("ping").catch(() => {}), frame.heartbeatSeconds * 1000);
        this.#connected.resolve();
        break;
      case "ack":
      case "pong":
        this.#take(frame.id ?? "")?.resolve();
        break;
      case "error":
        this.#refused(frame);
        break;
    }
  }

  #refused({ id, code }: ChatErrorFrame): void {
    this.#take(id ?? "")?.reject(new Error(code));
  }

  #take(id: string) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #closed(code: number): void {
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    const error = new Error(`CLOSED ${code}`);
    this.#connected.reject(error);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
