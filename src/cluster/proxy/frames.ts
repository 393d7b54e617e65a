/*
 * The frames between a proxy and the leader on their one connection: a letter, the id of the client's socket, and the
 * payload. The frames are text because nearly all of them contain the unchanged JSON of a client's frame.
 */

export const PROXY_PATH = "/v1/cluster/edge";

export type UpgradeRequest = { url: string; headers: [string, string][] };
/** The leader's response to a rejected upgrade request. */
export type RefusedUpgrade = { status: number; headers: [string, string][]; body: string };

export type ProxyFrame =
  | { type: "open"; id: number; upgradeRequest: UpgradeRequest }
  | { type: "text"; id: number; text: string }
  | { type: "bytes"; id: number; data: Buffer }
  /** A frame larger than any protocol allows; the leader only needs its size to close the socket. */
  | { type: "oversized"; id: number; size: number }
  | { type: "pong"; id: number }
  | { type: "buffered"; id: number; size: number }
  | { type: "closed"; id: number; code: number };

export type LeaderFrame =
  | { type: "accept"; id: number; headers: Record<string, string> }
  | { type: "refuse"; id: number; refusal: RefusedUpgrade }
  | { type: "text"; id: number; text: string }
  | { type: "bytes"; id: number; data: Buffer }
  | { type: "ping"; id: number }
  | { type: "subscribe"; id: number; topic: string }
  | { type: "unsubscribe"; id: number; topic: string }
  | { type: "close"; id: number; code: number; reason: string }
  /** The text is for all sockets of the proxy that subscribe to the topic. */
  | { type: "publish"; topic: string; text: string };

export function encodeProxyFrame(frame: ProxyFrame): string {
  switch (frame.type) {
    case "open":
      return `o${frame.id} ${JSON.stringify(frame.upgradeRequest)}`;
    case "text":
      return `t${frame.id} ${frame.text}`;
    case "bytes":
      return `b${frame.id} ${frame.data.toString("base64")}`;
    case "oversized":
      return `h${frame.id} ${frame.size}`;
    case "pong":
      return `p${frame.id} `;
    case "buffered":
      return `w${frame.id} ${frame.size}`;
    case "closed":
      return `c${frame.id} ${frame.code}`;
  }
}

export function decodeProxyFrame(encoded: string): ProxyFrame {
  const { letter, id, rest } = splitFrame(encoded);
  switch (letter) {
    case "o":
      return { type: "open", id, upgradeRequest: JSON.parse(rest) as UpgradeRequest };
    case "t":
      return { type: "text", id, text: rest };
    case "b":
      return { type: "bytes", id, data: Buffer.from(rest, "base64") };
    case "h":
      return { type: "oversized", id, size: Number(rest) };
    case "p":
      return { type: "pong", id };
    case "w":
      return { type: "buffered", id, size: Number(rest) };
    case "c":
      return { type: "closed", id, code: Number(rest) };
    default:
      throw new Error(`a proxy sent an unknown frame: ${letter}`);
  }
}

export function encodeLeaderFrame(frame: LeaderFrame): string {
  switch (frame.type) {
    case "accept":
      return `a${frame.id} ${JSON.stringify(frame.headers)}`;
    case "refuse":
      return `r${frame.id} ${JSON.stringify(frame.refusal)}`;
    case "text":
      return `t${frame.id} ${frame.text}`;
    case "bytes":
      return `b${frame.id} ${frame.data.toString("base64")}`;
    case "ping":
      return `p${frame.id} `;
    case "subscribe":
      return `s${frame.id} ${frame.topic}`;
    case "unsubscribe":
      return `u${frame.id} ${frame.topic}`;
    case "close":
      return `c${frame.id} ${frame.code} ${frame.reason}`;
    case "publish":
      return `P0 ${frame.topic}\n${frame.text}`;
  }
}

export function decodeLeaderFrame(encoded: string): LeaderFrame {
  const { letter, id, rest } = splitFrame(encoded);
  switch (letter) {
    case "a":
      return { type: "accept", id, headers: JSON.parse(rest) as Record<string, string> };
    case "r":
      return { type: "refuse", id, refusal: JSON.parse(rest) as RefusedUpgrade };
    case "t":
      return { type: "text", id, text: rest };
    case "b":
      return { type: "bytes", id, data: Buffer.from(rest, "base64") };
    case "p":
      return { type: "ping", id };
    case "s":
      return { type: "subscribe", id, topic: rest };
    case "u":
      return { type: "unsubscribe", id, topic: rest };
    case "c": {
      const space = rest.indexOf(" ");
      return { type: "close", id, code: Number(rest.slice(0, space)), reason: rest.slice(space + 1) };
    }
    case "P": {
      const line = rest.indexOf("\n");
      return { type: "publish", topic: rest.slice(0, line), text: rest.slice(line + 1) };
    }
    default:
      throw new Error(`a leader sent an unknown frame: ${letter}`);
  }
}

function splitFrame(encoded: string): { letter: string; id: number; rest: string } {
  const space = encoded.indexOf(" ");
  return { letter: encoded[0] ?? "", id: Number(encoded.slice(1, space)), rest: encoded.slice(space + 1) };
}

const BATCH_LETTER = "m";
/** A larger frame is sent alone. The limit is far below the size of the socket buffers. */
const MAX_BATCH_CHARACTERS = 64 * 1024;

/** The first message of a leader that supports batches; a proxy asks for them with this query parameter. */
export const BATCH_GREETING = BATCH_LETTER;
export const BATCHES_QUERY = "bundles";

/**
 * Joins frames of one event-loop tick into one message, so that the receiver handles them in one tick as well: the leader
 * commits them together, and the proxy writes once to a socket that gets several broadcasts.
 */
export function nextBatch(frames: readonly string[], from: number): { text: string; next: number } {
  let text = BATCH_LETTER;
  let next = from;
  for (; next < frames.length; next++) {
    const frame = frames[next] ?? "";
    if (next > from && text.length + frame.length > MAX_BATCH_CHARACTERS) break;
    text += `${frame.length} ${frame}`;
  }
  return next === from + 1 ? { text: frames[from] ?? "", next } : { text, next };
}

export function isBatch(text: string): boolean {
  return text.startsWith(BATCH_LETTER);
}

export function framesOf(text: string): string[] {
  if (!isBatch(text)) return [text];
  const frames: string[] = [];
  for (let at = BATCH_LETTER.length; at < text.length; ) {
    const start = text.indexOf(" ", at) + 1;
    const end = start + Number(text.slice(at, start - 1));
    // A length that is negative or not a number would make this loop infinite.
    if (start === 0 || !(end >= start && end <= text.length)) throw new Error("a frame batch has a wrong length");
    frames.push(text.slice(start, end));
    at = end;
  }
  return frames;
}
