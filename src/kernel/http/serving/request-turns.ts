import type { AnyElysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { MAX_BODY_BYTES, SMALL_BODY_BYTES } from "../body.ts";
import type { Listening } from "../request-info.ts";

/** So many under way at once are nobody's flood: whoever is one of few is not even counted. */
const FEW = 4;
/** What requests get of a turn of the loop, be they as many as they like. */
const TURN_MS = 3;
/** As long as nobody waits: to look at the clock costs as much as the rest of this. */
const LOOK_AT_THE_CLOCK_EVERY = 4;
/** That begin in a turn; the clock ends most turns before. */
const MOST_IN_A_TURN = 64;
/** What comes on top of these begins at once, as all would: so many requests are not kept in memory for later. */
const MOST_WAITING = 2_048;
/** What they may bring with them, of one address and of all: it is held while they wait. Whoever comes on top of that is refused. */
const MOST_WAITING_BYTES = { ofOne: 8 * 1024 * 1024, ofAll: 64 * 1024 * 1024 };

const HEALTH = /^[^/]*\/\/[^/]*\/(?:healthz|readyz)(?:\?|$)/;

export type RequestTurnsDeps = {
  /** How many requests are under way. */
  underWay: () => number;
  addressOf: (request: Request) => string;
  clock?: () => number;
  afterTurn?: (run: () => void) => unknown;
};

/** Of one address. */
type Line = { begins: { begin: () => void; bytes: number }[]; bytes: number };

/** When a request may begin: null is now. */
export type RequestTurns = (request: Request) => Promise<void> | null;

/**
 * Whose request begins when. The network hands over everything that has arrived in one go; a hundred requests of some
 * milliseconds each would be one turn of the loop, in which nobody else is heard. Those that a turn has no time for wait,
 * and begin address by address: who asks for little is not behind who asks for much. Whether the server lives is answered
 * at once, whatever waits.
 */
export function createRequestTurns(deps: RequestTurnsDeps): RequestTurns {
  const { underWay, addressOf, clock = () => performance.now(), afterTurn = setImmediate } = deps;
  const lines = new Map<string, Line>();
  let waiting = 0;
  let waitingBytes = 0;
  /** Null outside of a turn in which requests are counted. */
  let endsAt: number | null = null;
  let begun = 0;
  /** The next that waits begins a turn of those that do. */
  let isFirst = false;

  function open(): void {
    begun = 0;
    endsAt = clock() + TURN_MS;
    afterTurn(close);
  }

  function close(): void {
    endsAt = null;
    if (waiting === 0) return;
    isFirst = true;
    // Each by itself: what it goes on with once it was awaited belongs to its time.
    for (let n = Math.min(waiting, MOST_IN_A_TURN); n > 0; n--) afterTurn(beginNext);
    afterTurn(close);
  }

  function beginNext(): void {
    if (isFirst) {
      isFirst = false;
      endsAt = clock() + TURN_MS;
    } else if (endsAt !== null && clock() >= endsAt) return;
    const [address, line] = lines.entries().next().value ?? [];
    if (address === undefined || line === undefined) return;
    const first = line.begins.shift();
    // Behind the others.
    lines.delete(address);
    if (line.begins.length > 0) lines.set(address, line);
    waiting -= 1;
    if (!first) return;
    line.bytes -= first.bytes;
    waitingBytes -= first.bytes;
    first.begin();
  }

  return (request) => {
    if (waiting === 0) {
      if (underWay() <= FEW) return null;
      if (endsAt === null) open();
      else if (++begun % LOOK_AT_THE_CLOCK_EVERY === 0 && clock() >= endsAt) return wait(request);
      return null;
    }
    return waiting >= MOST_WAITING ? null : wait(request);
  };

  function wait(request: Request): Promise<void> | null {
    if (HEALTH.test(request.url)) return null;
    const address = addressOf(request);
    const line = lines.get(address) ?? { begins: [], bytes: 0 };
    const bytes = unreadBytes(request);
    if (bytes > 0 && (line.bytes >= MOST_WAITING_BYTES.ofOne || waitingBytes >= MOST_WAITING_BYTES.ofAll)) {
      refuseAsTooMuch(request);
      return null;
    }
    if (line.begins.length === 0) lines.set(address, line);
    waiting += 1;
    line.bytes += bytes;
    waitingBytes += bytes;
    return new Promise((begin) => line.begins.push({ begin, bytes }));
  }
}

/** `innerRequests`: those that came by the inner way, which the server itself does not count; null when there is none. */
export function requestsUnderWay(listening: Listening, innerRequests: (() => number) | null): () => number {
  return () => (listening.server?.pendingRequests ?? 0) + (innerRequests?.() ?? 0);
}

type Handle = (request: Request) => unknown;

/** Has every request of the server wait for its turn, sockets that are being opened too, and none leave its body behind. */
export function inTurns(app: AnyElysia, turns: RequestTurns): void {
  const wrap = (handle: Handle, request: Request): Handle => {
    const turn = turns(request);
    const begin = turn === null ? handle : () => turn.then(() => handle(request));
    if (unreadBytes(request) === 0) return begin;
    return () => {
      const answer = begin(request);
      return answer instanceof Promise ? answer.finally(() => dropUnread(request)) : answer;
    };
  };
  app.wrap(wrap as Parameters<AnyElysia["wrap"]>[0]);
}

/**
 * How much of its body a request may have in memory unread: the runtime reads about a mebibyte of it before anybody asks,
 * and keeps what nobody did ask for until it collects the request. Small bodies are not worth a look, and of those that only
 * ask for something none is read.
 */
function unreadBytes({ method, headers }: Request): number {
  if (method === "GET" || method === "HEAD") return 0;
  const declared = headers.get("content-length");
  if (declared === null) return headers.has("transfer-encoding") ? MAX_BODY_BYTES : 0;
  const bytes = Number(declared);
  // What is no number is no size that anything could be counted by.
  return bytes > SMALL_BODY_BYTES ? Math.min(bytes, MAX_BODY_BYTES) : 0;
}

/** Once it was answered. What is being read is its reader's. */
function dropUnread(request: Request): void {
  if (!request.bodyUsed) request.body?.cancel().catch(() => {});
}

const REFUSED = Symbol("refused");
type Marked = Request & { [REFUSED]?: true };

/** It is answered as any other is, but with a refusal: `problemOfSize` tells whoever looks at it first. */
function refuseAsTooMuch(request: Request): void {
  (request as Marked)[REFUSED] = true;
}

export function problemOfSize(request: Request): ApiError | null {
  return (request as Marked)[REFUSED] ? new ApiError("SVC_OVERLOADED") : null;
}
