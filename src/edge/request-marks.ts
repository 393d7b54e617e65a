/**
 * Puts a line of headers into every request of a connection. It must know where requests begin, hence how long their
 * bodies are, and nothing else of them; what is no HTTP goes on as it is, for the server to refuse.
 */

/** What the next bytes are part of; `rest`: of nothing that is a request. */
type Part = "request line" | "headers" | "body" | "chunk size" | "chunk" | "trailers" | "rest";

/** No server here reads a longer line. */
const MAX_LINE_BYTES = 64 * 1_024;
const LINE_FEED = 0x0a;
const END_OF_HEAD = Buffer.from("\r\n\r\n");
const LINE_BREAK_BYTES = 2;
/** Twelve digits stay a whole number; `parseInt` alone would take a sign, and a negative size steps backwards forever. */
const CHUNK_SIZE = /^([0-9a-f]{1,12})(?:;.*)?$/i;
/** With one of these, more than a next request may follow. */
const TELLS_WHAT_FOLLOWS = /\n(?:content-length|transfer-encoding|upgrade)[ \t]*:/i;

export class RequestMarks {
  readonly #mark: Buffer;
  #part: Part = "request line";
  /** The beginning of a line that has not arrived whole. */
  #begun = "";
  /** Of a body or a chunk. */
  #bytesLeft = 0;
  #head = { length: 0, isChunked: false, toWebSocket: false };

  constructor(line: string) {
    this.#mark = Buffer.from(line);
  }

  /** No more requests are looked for: what follows is a socket's, or nobody's. */
  get isDone(): boolean {
    return this.#part === "rest";
  }

  /** The bytes as they go on. */
  pass(data: Buffer): Buffer {
    if (this.#part === "rest") return data;
    return this.#passWhole(data) ?? this.#passParts(data);
  }

  /** Most often it is one request without a body, and all of it. */
  #passWhole(data: Buffer): Buffer | null {
    if (this.#part !== "request line" || this.#begun !== "") return null;
    if (data.indexOf(END_OF_HEAD) !== data.length - END_OF_HEAD.length) return null;
    const firstLine = data.indexOf(LINE_FEED) + 1;
    if (firstLine <= LINE_BREAK_BYTES || TELLS_WHAT_FOLLOWS.test(data.toString("latin1", firstLine - 1))) return null;
    return Buffer.concat([data.subarray(0, firstLine), this.#mark, data.subarray(firstLine)]);
  }

  #passParts(data: Buffer): Buffer {
    const pieces: Buffer[] = [];
    let passed = 0;
    let at = 0;
    while (at < data.length && this.#part !== "rest") {
      if (this.#part === "body" || this.#part === "chunk") {
        at += this.#skip(data.length - at);
        continue;
      }
      const end = data.indexOf(LINE_FEED, at);
      this.#begun += data.toString("latin1", at, end < 0 ? data.length : end);
      if (this.#begun.length > MAX_LINE_BYTES) {
        this.#begun = "";
        this.#part = "rest";
        break;
      }
      if (end < 0) break;
      at = end + 1;
      const line = this.#begun.endsWith("\r") ? this.#begun.slice(0, -1) : this.#begun;
      this.#begun = "";
      if (this.#read(line)) {
        pieces.push(data.subarray(passed, at), this.#mark);
        passed = at;
      }
    }
    return pieces.length === 0 ? data : Buffer.concat([...pieces, data.subarray(passed)]);
  }

  #skip(available: number): number {
    const bytes = Math.min(available, this.#bytesLeft);
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft === 0) this.#part = this.#part === "body" ? "request line" : "chunk size";
    return bytes;
  }

  /** True after the first line of a request. */
  #read(line: string): boolean {
    switch (this.#part) {
      case "request line":
        // Some send an empty line after a body.
        if (line === "") return false;
        this.#head = { length: 0, isChunked: false, toWebSocket: false };
        this.#part = "headers";
        return true;
      case "headers":
        if (line === "") this.#part = this.#afterHead();
        else this.#readHeader(line);
        return false;
      case "chunk size": {
        const digits = CHUNK_SIZE.exec(line)?.[1];
        if (digits === undefined) {
          this.#part = "rest";
          return false;
        }
        const size = Number.parseInt(digits, 16);
        this.#bytesLeft = size + LINE_BREAK_BYTES;
        this.#part = size === 0 ? "trailers" : "chunk";
        return false;
      }
      case "trailers":
        if (line === "") this.#part = "request line";
        return false;
      default:
        return false;
    }
  }

  #readHeader(line: string): void {
    const colon = line.indexOf(":");
    const value = line.slice(colon + 1).trim();
    switch (line.slice(0, colon).trimEnd().toLowerCase()) {
      case "content-length":
        if (/^\d{1,15}$/.test(value)) this.#head.length = Number(value);
        else this.#part = "rest";
        break;
      case "transfer-encoding":
        this.#head.isChunked = true;
        break;
      case "upgrade":
        this.#head.toWebSocket = value.toLowerCase() === "websocket";
        break;
    }
  }

  #afterHead(): Part {
    const { length, isChunked, toWebSocket } = this.#head;
    // The server closes the connection unless it becomes one.
    if (toWebSocket) return "rest";
    if (isChunked) return "chunk size";
    this.#bytesLeft = length;
    return length > 0 ? "body" : "request line";
  }
}
