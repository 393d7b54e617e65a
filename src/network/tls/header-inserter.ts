/**
 * Inserts a header line into every request of a connection, for which it has to determine the start and the body length
 * of each request. The server parses the same bytes again, so ambiguous requests, which two parsers could interpret
 * differently, are rejected (RFC 9112, sections 5 to 7), and heads and lines are forwarded only when they are complete.
 */

/** The next part of a request; after `rest`, a WebSocket or tunnel, no request follows. */
type Part = "head" | "body" | "chunk size" | "chunk" | "chunk end" | "trailers" | "rest" | "refused";

/** The connection is answered with this status and closed. */
export type RefusalStatus = 400 | 431;

/** The HTTP server has the same limit. */
const MAX_HEAD_BYTES = 16 * 1_024;
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
const FRAMING = /\n(content-length|transfer-encoding|upgrade):[ \t]*([^\r]*)/gi;
/** Some clients pad the chunk size with zeros, so its value is checked instead of its length. */
const CHUNK_LINE = new RegExp(`^([\\da-f]{1,16})(?:;${TOKEN}(?:=(?:${TOKEN}|${QUOTED}))?)*\\r\\n$`, "i");
/** Trailing spaces are matched here, because trimming them with a regular expression takes quadratic time. */
const CONTENT_LENGTH = /^(\d{1,15})[ \t]*$/;
const CHUNKED = /^chunked[ \t]*$/i;
const WEBSOCKET = /^websocket[ \t]*$/i;

export class HeaderInserter {
  readonly #headerLine: Buffer;
  #part: Part = "head";
  #held = NOTHING;
  #bytesLeft = 0;
  #refusal: RefusalStatus | null = null;

  constructor(line: string) {
    this.#headerLine = Buffer.from(line);
  }

  /** True when no more requests follow and all bytes are forwarded unchanged. */
  get isDone(): boolean {
    return this.#part === "rest";
  }

  /** When not null, no more bytes are forwarded, and the caller answers with this status and closes the connection. */
  get refusal(): RefusalStatus | null {
    return this.#refusal;
  }

  pass(input: Buffer): Buffer {
    if (this.#part === "rest") return input;
    const heldBytes = this.#held.length;
    const data = heldBytes === 0 ? input : Buffer.concat([this.#held, input]);
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
        pieces.push(data.subarray(passed, firstHeader), this.#headerLine);
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

  /** The end of the part that starts here, always after its start; null when the part is incomplete or rejected. */
  #read(data: Buffer, at: number, unseen: number): number | null {
    switch (this.#part) {
      case "head":
        // Some clients send an empty line after a body.
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

  /** Reads lines up to an empty one, without searching the bytes before `unseen` again. */
  #readLines(data: Buffer, at: number, unseen: number, maxBytes: number, tooLong: RefusalStatus): number | null {
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

  #refuse(status: RefusalStatus): null {
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
      // The server closes the connection unless the upgrade succeeds. A body is rejected, because its start would be
      // ambiguous.
      return isChunked || bodyBytes > 0 ? "refused" : "rest";
    }
    this.#bytesLeft = bodyBytes;
    return isChunked ? "chunk size" : bodyBytes > 0 ? "body" : "head";
  }

  #afterChunkLine(line: string): Part {
    // `parseInt` alone would accept a sign, and a negative size would read the same bytes forever.
    const size = Number.parseInt(CHUNK_LINE.exec(line)?.[1] ?? "", 16);
    if (!Number.isSafeInteger(size)) return "refused";
    this.#bytesLeft = size;
    return size > 0 ? "chunk" : "trailers";
  }
}

/** Trailers must not contain headers that define the length of a request. */
function afterTrailers(trailers: string): Part {
  const lines = `\r\n${trailers}`;
  return TRAILERS.test(lines) && lines.search(FRAMING) < 0 ? "head" : "refused";
}

type Framing = { [name in "content-length" | "transfer-encoding" | "upgrade"]?: string };

/** Null when a header occurs twice. */
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

/** Some parsers accept a bare line feed as the end of a line, and others do not. */
function hasBareLineFeed(data: Buffer, from: number, beginning: number): boolean {
  for (let at = data.indexOf(LINE_FEED, from); at >= 0; at = data.indexOf(LINE_FEED, at + 1)) {
    if (at === beginning || data[at - 1] !== CARRIAGE_RETURN) return true;
  }
  return false;
}
