/*
 * What an edge and the leader say to each other over their one connection: a letter, the number of the socket it is
 * about, and the rest. Text throughout: nearly all of it is the JSON of somebody's frame, which is carried as it is.
 */

/** Of a client that asks for a socket, as its request was. */
export type Arrival = { url: string; headers: [string, string][] };
/** The answer to one that gets none. */
export type Refusal = { status: number; headers: [string, string][]; body: string };

export type EdgeFrame =
  | { type: "open"; id: number; arrival: Arrival }
  | { type: "text"; id: number; text: string }
  | { type: "bytes"; id: number; data: Buffer }
  /** A frame that no protocol takes; only its size is told. */
  | { type: "huge"; id: number; size: number }
  | { type: "pong"; id: number }
  | { type: "buffered"; id: number; size: number }
  | { type: "closed"; id: number; code: number };

export type LeaderFrame =
  | { type: "accept"; id: number; headers: Record<string, string> }
  | { type: "refuse"; id: number; refusal: Refusal }
  | { type: "text"; id: number; text: string }
  | { type: "bytes"; id: number; data: Buffer }
  | { type: "ping"; id: number }
  | { type: "subscribe"; id: number; topic: string }
  | { type: "unsubscribe"; id: number; topic: string }
  | { type: "close"; id: number; code: number; reason: string }
  /** To everybody on this edge who subscribed. */
  | { type: "publish"; topic: string; text: string };

export function encodeEdgeFrame(frame: EdgeFrame): string {
  switch (frame.type) {
    case "open":
      return `o${frame.id} ${JSON.stringify(frame.arrival)}`;
    case "text":
      return `t${frame.id} ${frame.text}`;
    case "bytes":
      return `b${frame.id} ${frame.data.toString("base64")}`;
    case "huge":
      return `h${frame.id} ${frame.size}`;
    case "pong":
      return `p${frame.id} `;
    case "buffered":
      return `w${frame.id} ${frame.size}`;
    case "closed":
      return `c${frame.id} ${frame.code}`;
  }
}

export function decodeEdgeFrame(encoded: string): EdgeFrame {
  const { letter, id, rest } = apart(encoded);
  switch (letter) {
    case "o":
      return { type: "open", id, arrival: JSON.parse(rest) as Arrival };
    case "t":
      return { type: "text", id, text: rest };
    case "b":
      return { type: "bytes", id, data: Buffer.from(rest, "base64") };
    case "h":
      return { type: "huge", id, size: Number(rest) };
    case "p":
      return { type: "pong", id };
    case "w":
      return { type: "buffered", id, size: Number(rest) };
    case "c":
      return { type: "closed", id, code: Number(rest) };
    default:
      throw new Error(`an edge says ${letter}, which is nothing`);
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
  const { letter, id, rest } = apart(encoded);
  switch (letter) {
    case "a":
      return { type: "accept", id, headers: JSON.parse(rest) as Record<string, string> };
    case "r":
      return { type: "refuse", id, refusal: JSON.parse(rest) as Refusal };
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
      throw new Error(`a leader says ${letter}, which is nothing`);
  }
}

function apart(encoded: string): { letter: string; id: number; rest: string } {
  const space = encoded.indexOf(" ");
  return { letter: encoded[0] ?? "", id: Number(encoded.slice(1, space)), rest: encoded.slice(space + 1) };
}
