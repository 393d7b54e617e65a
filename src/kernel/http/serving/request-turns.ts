import type { AnyElysia } from "elysia";
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

const HEALTH = /^[^/]*\/\/[^/]*\/(?:healthz|readyz)(?:\?|$)/;

export type RequestTurnsDeps = {
  /** How many requests are under way. */
  underWay: () => number;
  addressOf: (request: Request) => string;
  clock?: () => number;
  afterTurn?: (run: () => void) => unknown;
};

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
  const lines = new Map<string, (() => void)[]>();
  let waiting = 0;
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
    const begin = line.shift();
    // Behind the others.
    lines.delete(address);
    if (line.length > 0) lines.set(address, line);
    waiting -= 1;
    begin?.();
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
    const line = lines.get(address) ?? [];
    if (line.length === 0) lines.set(address, line);
    waiting += 1;
    return new Promise((begin) => line.push(begin));
  }
}

/** `innerRequests`: those that came by the inner way, which the server itself does not count; null when there is none. */
export function requestsUnderWay(listening: Listening, innerRequests: (() => number) | null): () => number {
  return () => (listening.server?.pendingRequests ?? 0) + (innerRequests?.() ?? 0);
}

type Handle = (request: Request) => unknown;

/** Has every request of the server wait for its turn, sockets that are being opened too. */
export function inTurns(app: AnyElysia, turns: RequestTurns): void {
  const wrap = (handle: Handle, request: Request): Handle => {
    const turn = turns(request);
    return turn === null ? handle : () => turn.then(() => handle(request));
  };
  app.wrap(wrap as Parameters<AnyElysia["wrap"]>[0]);
}
