import type { Socket } from "bun";

/** Stands on both sides of the time in every text; none of the protocols uses it for anything else. */
export const MARK = "~";
const MARK_BYTE = MARK.charCodeAt(0);

/**
 * The same WebSocket client for every server that is measured: as little work as can be, so that the server is the
 * bottleneck. It reads frames until told to count, and then only counts texts.
 */
export class WireClient {
  closed = false;
  #onText: ((text: string) => void) | null = null;
  #counting = false;
  #marks = 0;
  /** While counting: the bytes of a header that has not come whole, and what is left of the payload after it. */
  #header: number[] = [];
  #payloadLeft = 0;
  #pending: Buffer = Buffer.alloc(0);
  #greeted = false;
  #opened: () => void = () => {};
  #socket: Socket | null = null;

  static async connect(address: string, protocol?: string): Promise<WireClient> {
    const client = new WireClient();
    const { hostname, port, pathname, search } = new URL(address);
    const opened = new Promise<void>((resolve) => {
      client.#opened = resolve;
    });
    client.#socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data: (_, chunk) => client.#data(chunk),
        close: () => {
          client.closed = true;
        },
        error: () => {},
      },
    });
    client.#socket.write(
      `GET ${pathname}${search} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nupgrade: websocket\r\nconnection: upgrade\r\n` +
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
        `${protocol === undefined ? "" : `sec-websocket-protocol: ${protocol}\r\n`}\r\n`,
    );
    await opened;
    return client;
  }

  /** Messages that arrived before there was a reader are read first. */
  set onText(reader: (text: string) => void) {
    this.#onText = reader;
    this.#read(reader);
  }

  send(text: string): void {
    const payload = Buffer.from(text);
    const { length } = payload;
    const header = length < 126 ? [0x81, 0x80 | length] : [0x81, 0xfe, length >> 8, length & 255];
    // A mask of zeros leaves the payload as it is.
    this.#socket?.write(Buffer.concat([Buffer.from([...header, 0, 0, 0, 0]), payload]));
  }

  /** From here on frames are not read, texts are counted. */
  count(): void {
    this.#counting = true;
    this.#marks = 0;
    this.#count(this.#pending);
    this.#pending = Buffer.alloc(0);
  }
  get texts(): number {
    return this.#marks / 2;
  }
  close(): void {
    this.#socket?.terminate();
  }

  #data(chunk: Buffer): void {
    if (this.#counting) return void this.#count(chunk);
    this.#pending = this.#pending.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#pending, chunk]);
    if (!this.#greeted) {
      const end = this.#pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.#greeted = true;
      this.#pending = this.#pending.subarray(end + 4);
      this.#opened();
    }
    if (this.#onText) this.#read(this.#onText);
  }

  /** In payloads alone: the header of most texts has a byte that looks like a mark. */
  #count(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#payloadLeft === 0) {
        this.#header.push(chunk[at++] ?? 0);
        this.#payloadLeft = payloadAfter(this.#header);
        if (this.#payloadLeft > 0) this.#header = [];
        continue;
      }
      const end = Math.min(chunk.length, at + this.#payloadLeft);
      for (let mark = chunk.indexOf(MARK_BYTE, at); mark >= 0 && mark < end; ) {
        this.#marks += 1;
        mark = chunk.indexOf(MARK_BYTE, mark + 1);
      }
      this.#payloadLeft -= end - at;
      at = end;
    }
  }

  #read(reader: (text: string) => void): void {
    for (let text = this.#next(); text !== null; text = this.#next()) reader(text);
  }

  /** The next whole text frame; pings and the like are passed over. */
  #next(): string | null {
    for (;;) {
      const data = this.#pending;
      if (data.length < 2) return null;
      const short = (data[1] ?? 0) & 0x7f;
      const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
      if (data.length < 2 + extra) return null;
      const length = short === 126 ? data.readUInt16BE(2) : short === 127 ? Number(data.readBigUInt64BE(2)) : short;
      const end = 2 + extra + length;
      if (data.length < end) return null;
      this.#pending = data.subarray(end);
      if (((data[0] ?? 0) & 0x0f) === 1) return data.toString("utf8", 2 + extra, end);
    }
  }
}

/** The length of the payload that a whole header announces; 0 while it is not whole. One without a payload is dropped. */
function payloadAfter(header: number[]): number {
  const [, second] = header;
  if (second === undefined) return 0;
  const extra = second === 126 ? 2 : second === 127 ? 8 : 0;
  if (header.length < 2 + extra) return 0;
  const length = extra === 0 ? second : header.slice(2).reduce((sum, byte) => sum * 256 + byte, 0);
  if (length === 0) header.length = 0;
  return length;
}
