/**
 * Puts a line of headers into every request of a connection. It must know where requests begin, hence how long their
 * bodies are. The server reads the same bytes once more: whatever two parsers could read in two ways is refused here
 * (RFC 9112, sections 5 to 7), and heads and lines go on only once they were read whole.
 */

/** What the next bytes are part of; `rest`: of a WebSocket or a tunnel, behind which no request follows. */
type Part = "head" | "body" | "chunk size" | "chunk" | "chunk end" | "trailers" | "rest" | "refused";

/** The status that a connection is answered with, and closed. */
export type Refusal = 400 | 431;

/** The HTTP server refuses longer ones too. */
const MAX_HEAD_BYTES = 16 * 1_024;
/** A chunk's size with its extensions. */
const MAX_CHUNK_LINE_BYTES = 1_024;
const MAX_TRAILERS_BYTES = 4 * 1_024;

const LINE_BREAK = Buffer.from("\r\n");
const EMPTY_LINE = Buffer.from("\r\n\r\n");
const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;
const NOTHING = Buffer.alloc(0);

const TOKEN = "[\\w!#$%&'*+.^`|~-]+";
const TEXT = "[\\t -~\\x80-\\xff]*";
const QUOTED = '"[\\t !#-\\[\\]-~\\x80-\\xff]*"';
const HEADERS = `(?:\\r\\n${TOKEN}:${TEXT})*`;
const HEAD = new RegExp(`^([A-Z-]+) [!-~\\x80-\\xff]+ HTTP/1\\.([01])${HEADERS}$`);
const TRAILERS = new RegExp(`^${HEADERS}$`);
/** The headers that say where a request ends, and what follows it. */
const FRAMING = /\n(content-length|transfer-encoding|upgrade):[ \t]*([^\r]*)/gi;
/** Some pad the size with zeros: whether it is too large is told by its value. */
const CHUNK_LINE = new RegExp(`^([\\da-f]{1,16})(?:;${TOKEN}(?:=(?:${TOKEN}|${QUOTED}))?)*\\r\\n$`, "i");
/** Spaces behind a value belong to nobody. Cutting them off with an expression takes the square of their number. */
const CONTENT_LENGTH = /^(\d{1,15})[ \t]*$/;
const CHUNKED = /^chunked[ \t]*$/i;
const WEBSOCKET = /^websocket[ \t]*$/i;

export class RequestMarks {
  readonly #mark: Buffer;
  #part: Part = "head";
  /** The beginning of a head, a line or trailers that have not arrived whole. */
  #held = NOTHING;
  /** Of a body or a chunk. */
  #bytesLeft = 0;
  #refusal: Refusal | null = null;

  constructor(line: string) {
    this.#mark = Buffer.from(line);
  }

  /** No more requests are looked for, and all bytes go on as they are. */
  get isDone(): boolean {
    return this.#part === "rest";
  }

  /** Not null: nothing goes on any more, and the connection is to be answered with this status and closed. */
  get refusal(): Refusal | null {
    return this.#refusal;
  }

  /** The bytes that go on. */
  pass(given: Buffer): Buffer {
    if (this.#part === "rest") return given;
    const heldBytes = this.#held.length;
    const data = heldBytes === 0 ? given : Buffer.concat([this.#held, given]);
    this.#held = NOTHING;
    const pieces: Buffer[] = [];
    let passed = 0;
    let at = 0;
    while (at < data.length && !this.isDone) {
      const isRequest = this.#part === "head" && !isLineBreak(data, at);
      const end = this.#read(data, at, Math.max(at, heldBytes));
      if (end === null) break;
      if (isRequest) {
        const firstHeader = data.indexOf(LINE_BREAK, at) + LINE_BREAK.length;
        pieces.push(data.subarray(passed, firstHeader), this.#mark);
        passed = firstHeader;
      }
      at = end;
    }
    if (this.isDone) at = data.length;
    else if (at < data.length && this.#refusal === null) this.#held = Buffer.from(data.subarray(at));
    if (passed === 0) return data.subarray(0, at);
    pieces.push(data.subarray(passed, at));
    return Buffer.concat(pieces);
  }

  /** Where the part that begins here ends, which is always further on; null: it is not whole, or refused. */
  #read(data: Buffer, at: number, unseen: number): number | null {
    switch (this.#part) {
      case "head":
        // Some send an empty line after a body.
        if (isLineBreak(data, at)) return at + LINE_BREAK.length;
        return this.#readLines(data, at, unseen, MAX_HEAD_BYTES, 431);
      case "chunk size":
        return this.#readChunkLine(data, at);
      case "chunk end":
        if (isLineBreak(data, at)) return this.#next("chunk size", at + LINE_BREAK.length);
        return data.length - at < LINE_BREAK.length ? null : this.#refuse(400);
      case "trailers":
        if (isLineBreak(data, at)) return this.#next("head", at + LINE_BREAK.length);
        return this.#readLines(data, at, unseen, MAX_TRAILERS_BYTES, 400);
      case "body":
      case "chunk":
        return at + this.#skip(data.length - at);
      default:
        return null;
    }
  }

  /** Lines up to an empty one. Those that came before are not looked through again. */
  #readLines(data: Buffer, at: number, unseen: number, maxBytes: number, tooLong: Refusal): number | null {
    const end = data.indexOf(EMPTY_LINE, Math.max(at, unseen - EMPTY_LINE.length + 1));
    if ((end < 0 ? data.length : end) - at > maxBytes) return this.#refuse(tooLong);
    if (end < 0) return hasBareLineFeed(data, unseen, at) ? this.#refuse(400) : null;
    const text = data.toString("latin1", at, end);
    return this.#next(this.#part === "head" ? this.#afterHead(text) : afterTrailers(text), end + EMPTY_LINE.length);
  }

  #readChunkLine(data: Buffer, at: number): number | null {
    const end = data.indexOf(LINE_FEED, at);
    if ((end < 0 ? data.length : end) - at > MAX_CHUNK_LINE_BYTES) return this.#refuse(400);
    if (end < 0) return null;
    return this.#next(this.#afterChunkLine(data.toString("latin1", at, end + 1)), end + 1);
  }

  #next(part: Part, at: number): number | null {
    if (part === "refused") return this.#refuse(400);
    this.#part = part;
    return at;
  }

  #refuse(status: Refusal): null {
    this.#part = "refused";
    this.#refusal = status;
    return null;
  }

  #skip(available: number): number {
    const bytes = Math.min(available, this.#bytesLeft);
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft === 0) this.#part = this.#part === "body" ? "head" : "chunk end";
    return bytes;
  }

  #afterHead(head: string): Part {
    const [, method, minorVersion] = HEAD.exec(head) ?? [];
    const framing = readFraming(head);
    if (method === undefined || framing === null) return "refused";
    const { "content-length": length, "transfer-encoding": coding, upgrade = "" } = framing;
    const isChunked = coding !== undefined;
    if (isChunked && (length !== undefined || minorVersion !== "1" || !CHUNKED.test(coding))) return "refused";
    const bodyBytes = Number(length === undefined ? 0 : CONTENT_LENGTH.exec(length)?.[1]);
    if (Number.isNaN(bodyBytes)) return "refused";
    if (WEBSOCKET.test(upgrade) || method === "CONNECT") {
      // The server closes the connection unless it becomes one. With a body, where it begins would be anybody's guess.
      return isChunked || bodyBytes > 0 ? "refused" : "rest";
    }
    this.#bytesLeft = bodyBytes;
    return isChunked ? "chunk size" : bodyBytes > 0 ? "body" : "head";
  }

  #afterChunkLine(line: string): Part {
    // `parseInt` alone would take a sign: a negative size would lead backwards, to the same bytes again and again.
    const size = Number.parseInt(CHUNK_LINE.exec(line)?.[1] ?? "", 16);
    if (!Number.isSafeInteger(size)) return "refused";
    this.#bytesLeft = size;
    return size > 0 ? "chunk" : "trailers";
  }
}

/** Trailers come too late to say anything about the request's end. */
function afterTrailers(trailers: string): Part {
  const lines = `\r\n${trailers}`;
  return TRAILERS.test(lines) && lines.search(FRAMING) < 0 ? "head" : "refused";
}

type Framing = { [name in "content-length" | "transfer-encoding" | "upgrade"]?: string };

/** Null: one of them is there twice. */
function readFraming(head: string): Framing | null {
  const framing: Framing = {};
  for (const [, name = "", value = ""] of head.matchAll(FRAMING)) {
    const known = name.toLowerCase() as keyof Framing;
    if (framing[known] !== undefined) return null;
    framing[known] = value;
  }
  return framing;
}

function isLineBreak(data: Buffer, at: number): boolean {
  return data[at] === CARRIAGE_RETURN && data[at + 1] === LINE_FEED;
}

/** Some take it for the end of a line, others do not. */
function hasBareLineFeed(data: Buffer, from: number, beginning: number): boolean {
  for (let at = data.indexOf(LINE_FEED, from); at >= 0; at = data.indexOf(LINE_FEED, at + 1)) {
    if (at === beginning || data[at - 1] !== CARRIAGE_RETURN) return true;
  }
  return false;
}
