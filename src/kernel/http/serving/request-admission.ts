import type { AnyElysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { type EventLoop, FairQueue } from "../../scheduling/fair-queue.ts";
import { MAX_BODY_BYTES, SMALL_BODY_BYTES } from "../body.ts";
import type { Listening } from "../request-info.ts";

/** With this few requests in progress none waits, and their time is not measured. */
const FEW_REQUESTS = 4;
/** Total processing time of the requests that are started in one event-loop tick. */
const SLICE_MS = 3;
/** Reading the clock takes as long as the rest of the check, so only every fourth request reads it while none waits. */
const REQUESTS_PER_CLOCK_READ = 4;
/** Further requests start at once instead of being queued in memory. */
const MAX_WAITING = 2_048;
/** The bodies of waiting requests are in memory; beyond these limits a request with a large body is rejected. */
const MAX_WAITING_BYTES = { perAddress: 8 * 1024 * 1024, total: 64 * 1024 * 1024 };

const HEALTH = /^[^/]*\/\/[^/]*\/(?:healthz|readyz)(?:\?|$)/;

type RequestAdmissionDeps = {
  requestsInProgress: () => number;
  addressOf: (request: Request) => string;
} & EventLoop;

/** When a request may start; null means now. */
type RequestAdmission = (request: Request) => Promise<void> | null;

type Line = { requests: { begin: () => void; bytes: number }[]; bytes: number; runNext(): boolean };

/**
 * The network delivers all received requests together; a hundred requests of some milliseconds each would block the
 * event loop. Requests that exceed the time slice wait in a fair queue by IP address: a client with one request does
 * not wait behind a client with many. Health checks never wait.
 */
export function createRequestAdmission(deps: RequestAdmissionDeps): RequestAdmission {
  const { requestsInProgress, addressOf, clock = () => performance.now(), nextTick } = deps;
  const queue = new FairQueue({ sliceMs: SLICE_MS, startsAsyncWork: true, clock, nextTick });
  const lines = new Map<string, Line>();
  let waiting = 0;
  let waitingBytes = 0;
  let tick = -1;
  let sliceEndsAt = 0;
  let begun = 0;

  return (request) => {
    if (waiting > 0) return waiting >= MAX_WAITING ? null : wait(request);
    if (requestsInProgress() <= FEW_REQUESTS) return null;
    const currentTick = queue.currentTick();
    if (currentTick !== tick) {
      tick = currentTick;
      begun = 0;
      sliceEndsAt = clock() + SLICE_MS;
      return null;
    }
    begun += 1;
    return begun % REQUESTS_PER_CLOCK_READ === 0 && clock() >= sliceEndsAt ? wait(request) : null;
  };

  function wait(request: Request): Promise<void> | null {
    if (HEALTH.test(request.url)) return null;
    const address = addressOf(request);
    const line = lines.get(address) ?? newLine(address);
    const bytes = unreadBytes(request);
    if (bytes > 0 && (line.bytes >= MAX_WAITING_BYTES.perAddress || waitingBytes >= MAX_WAITING_BYTES.total)) {
      markOverloaded(request);
      return null;
    }
    lines.set(address, line);
    queue.add(line);
    waiting += 1;
    line.bytes += bytes;
    waitingBytes += bytes;
    return new Promise((begin) => line.requests.push({ begin, bytes }));
  }

  function newLine(address: string): Line {
    const requests: Line["requests"] = [];
    const line: Line = {
      requests,
      bytes: 0,
      runNext() {
        const request = requests.shift();
        if (requests.length === 0) lines.delete(address);
        if (!request) return false;
        waiting -= 1;
        line.bytes -= request.bytes;
        waitingBytes -= request.bytes;
        request.begin();
        return requests.length > 0;
      },
    };
    return line;
  }
}

/**
 * `loopbackRequests` counts the requests of the loopback transport, which the server itself does not count; null
 * without one.
 */
export function requestsInProgress(listening: Listening, loopbackRequests: (() => number) | null): () => number {
  return () => (listening.server?.pendingRequests ?? 0) + (loopbackRequests?.() ?? 0);
}

type Handle = (request: Request) => unknown;

/**
 * Makes every request of the server, WebSocket upgrades included, wait for its admission, and releases unread bodies.
 * `arrived` is called before the request waits.
 */
export function admitRequests(
  app: AnyElysia,
  admit: RequestAdmission,
  arrived: (request: Request) => void = () => {},
): void {
  const wrap = (handle: Handle, request: Request): Handle => {
    arrived(request);
    const admitted = admit(request);
    const begin = admitted === null ? handle : () => admitted.then(() => handle(request));
    if (unreadBytes(request) === 0) return begin;
    return () => {
      const response = begin(request);
      return response instanceof Promise ? response.finally(() => releaseUnreadBody(request)) : response;
    };
  };
  app.wrap(wrap as Parameters<AnyElysia["wrap"]>[0]);
}

/**
 * The maximum number of unread bytes of a request's body in memory: the runtime reads about a mebibyte ahead and keeps
 * it until the request is garbage-collected. Small bodies are not worth the check, and the bodies of GET and HEAD are
 * never read.
 */
function unreadBytes({ method, headers }: Request): number {
  if (method === "GET" || method === "HEAD") return 0;
  const declared = headers.get("content-length");
  if (declared === null) return headers.has("transfer-encoding") ? MAX_BODY_BYTES : 0;
  const bytes = Number(declared);
  // A content-length that is not a number (NaN) compares as false and counts as 0.
  return bytes > SMALL_BODY_BYTES ? Math.min(bytes, MAX_BODY_BYTES) : 0;
}

/** Called once the request is answered. A body that is still being read belongs to its reader. */
function releaseUnreadBody(request: Request): void {
  if (!request.bodyUsed) request.body?.cancel().catch(() => {});
}

const OVERLOADED = Symbol("overloaded");
type Marked = Request & { [OVERLOADED]?: true };

/** The request continues on the normal path, and the envelope answers it with `overloadError`. */
function markOverloaded(request: Request): void {
  (request as Marked)[OVERLOADED] = true;
}

export function overloadError(request: Request): ApiError | null {
  return (request as Marked)[OVERLOADED] ? new ApiError("SVC_OVERLOADED") : null;
}
