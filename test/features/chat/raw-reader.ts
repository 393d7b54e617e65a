import { connect, type Socket } from "node:net";
import type { Frame } from "./client.ts";

/** A WebSocket client that can stop reading, as a phone in a tunnel does; browsers' and Bun's own cannot. */
export class RawReader {
  readonly frames: Frame[] = [];
  closeCode: number | null = null;
  #pending = Buffer.alloc(0);
  #greeted = false;
  #watchers = new Set<() => void>();

  private constructor(private readonly socket: Socket) {
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("close", () => {
      this.closeCode ??= 1006;
      this.#notify();
    });
    socket.on("error", () => {});
  }

  static async open(url: string, token: string): Promise<RawReader> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const reader = new RawReader(socket);
    socket.write(
      `GET /v1/chat/ws?token=${token} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nupgrade: websocket\r\nconnection: upgrade\r\n` +
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    await reader.until(() => reader.frames.length > 0 || reader.closeCode !== null);
    return reader;
  }

  send(frame: unknown): void {
    const payload = Buffer.from(JSON.stringify(frame));
    const header =
      payload.length < 126 ? [0x81, 0x80 | payload.length] : [0x81, 0xfe, payload.length >> 8, payload.length & 255];
    // A mask of zeros leaves the payload as it is.
    this.socket.write(Buffer.concat([Buffer.from([...header, 0, 0, 0, 0]), payload]));
  }

  stopReading(): void {
    this.socket.pause();
  }
  readAgain(): void {
    this.socket.resume();
  }
  destroy(): void {
    this.socket.destroy();
  }

  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      const watcher = () => {
        if (!condition()) return;
        this.#watchers.delete(watcher);
        resolve();
      };
      this.#watchers.add(watcher);
    });
  }

  #notify(): void {
    for (const watcher of this.#watchers) watcher();
  }

  #read(chunk: Buffer): void {
    this.#pending = Buffer.concat([this.#pending, chunk]);
    if (!this.#greeted) {
      const end = this.#pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.#greeted = true;
      this.#pending = this.#pending.subarray(end + 4);
    }
    for (let frame = this.#next(); frame; frame = this.#next()) {
      if (frame.opcode === 8) this.closeCode = frame.payload.readUInt16BE(0);
      if (frame.opcode === 1) this.frames.push(JSON.parse(frame.payload.toString()) as Frame);
    }
    this.#notify();
  }

  #next(): { opcode: number; payload: Buffer } | null {
    const data = this.#pending;
    if (data.length < 2) return null;
    const short = (data[1] ?? 0) & 0x7f;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    if (data.length < 2 + extra) return null;
    const length = short === 126 ? data.readUInt16BE(2) : short === 127 ? Number(data.readBigUInt64BE(2)) : short;
    const end = 2 + extra + length;
    if (data.length < end) return null;
    this.#pending = data.subarray(end);
    return { opcode: (data[0] ?? 0) & 0x0f, payload: data.subarray(2 + extra, end) };
  }
}
