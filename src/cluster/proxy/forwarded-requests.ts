import { UNKNOWN_ADDRESS, unmappedAddress } from "../../kernel/net/addresses.ts";
import { standbyResponse } from "../standby-server.ts";
import type { LeaderLink } from "./leader-link.ts";

const CLIENT_HEADER = "x-stoa-edge-client";
const CREDENTIAL_HEADER = "x-stoa-edge";
const HOP_BY_HOP_HEADERS = ["connection", "keep-alive", "transfer-encoding", "te", "trailer", "proxy-connection"];

/**
 * A standby leads after about six seconds; a client that waited for longer than this gets a response that asks it to
 * retry.
 */
export const LEADER_WAIT_MS = 7_000;
/** The total time for a request that waited for a leader until its response begins. */
const RESPONSE_AFTER_WAIT_MS = 1_000;
/** A leader that responds to other requests has this long for a request after the last byte of its body. */
const RESPONSE_TIMEOUT_MS = 30_000;
/** The idempotent methods of RFC 9110, section 9.2.2. */
const IDEMPOTENT_METHODS = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
/** A larger body is streamed, and its request is not retried. */
const MAX_REPEATED_BODY_BYTES = 64 * 1024;

const REPEAT_AFTER_MS = 50;

type ForwardDeps = { link: Pick<LeaderLink, "waitForLeader"> };

/**
 * Streams a request to the leader and its response back. A request that a lost leader did not answer is repeated at the
 * next leader if it is idempotent; otherwise the client gets an error that the outcome is unknown.
 */
export async function forward(request: Request, address: string, deps: ForwardDeps): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const body = await bodyOf(request);
  const since = performance.now();
  const leftMs = () => Math.max(0, since + LEADER_WAIT_MS - performance.now());
  for (;;) {
    const leader = await deps.link.waitForLeader(leftMs());
    if (leader === null) return standbyResponse(pathname);
    const hasWaited = leftMs() < LEADER_WAIT_MS - RESPONSE_AFTER_WAIT_MS;
    const responseTimeout = new ProgressTimeout(hasWaited ? leftMs() + RESPONSE_AFTER_WAIT_MS : RESPONSE_TIMEOUT_MS);
    try {
      const response = await fetch(`${leader.url}${pathname}${search}`, {
        method: request.method,
        headers: forwardedHeaders(request.headers, address, leader.token),
        body: body instanceof ReadableStream ? body.pipeThrough(responseTimeout.observer()) : body,
        redirect: "manual",
        // The client decompresses the body.
        decompress: false,
        signal: AbortSignal.any([request.signal, leader.lost, responseTimeout.signal]),
      });
      return new Response(response.body, { status: response.status, headers: responseHeaders(response.headers) });
    } catch {
      if (body instanceof ReadableStream || !isRepeatable(request)) return standbyResponse(pathname, "SVC_LEADER_LOST");
      if (request.signal.aborted || leftMs() === 0) return standbyResponse(pathname);
    } finally {
      responseTimeout.clear();
    }
    await Bun.sleep(REPEAT_AFTER_MS);
  }
}

/** An Idempotency-Key is stored in the transaction of its request, so that every leader knows it. */
function isRepeatable({ method, headers }: Request): boolean {
  return IDEMPOTENT_METHODS.has(method) || headers.has("idempotency-key");
}

/** The bytes of a small body that may have to be sent twice; otherwise the stream. */
async function bodyOf(request: Request): Promise<ArrayBuffer | ReadableStream<Uint8Array> | undefined> {
  if (request.body === null) return undefined;
  const length = Number(request.headers.get("content-length") ?? Number.NaN);
  return isRepeatable(request) && length <= MAX_REPEATED_BODY_BYTES ? await request.arrayBuffer() : request.body;
}

/** Aborts a request if its body makes no progress and its response does not begin. */
class ProgressTimeout {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout>;

  constructor(private readonly ms: number) {
    this.#timer = this.#start();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Passes a body through; every chunk is progress. */
  observer(): TransformStream<Uint8Array, Uint8Array> {
    return new TransformStream({
      transform: (chunk, controller) => {
        this.clear();
        this.#timer = this.#start();
        controller.enqueue(chunk);
      },
    });
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  #start(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.#controller.abort(), this.ms);
  }
}

/** The IP address of a proxy's client; null for a request that was not forwarded by a proxy. */
export function forwardedClientAddress(request: Request, isLinked: (token: string) => boolean): string | null {
  const shown = request.headers.get(CREDENTIAL_HEADER);
  if (shown === null || !isLinked(shown)) return null;
  return unmappedAddress(request.headers.get(CLIENT_HEADER) ?? UNKNOWN_ADDRESS);
}

/** The proxy's own headers replace those that a client sent under the same names. */
export function forwardedHeaders(own: Iterable<[string, string]>, address: string, token: string): [string, string][] {
  const dropped = new Set([...HOP_BY_HOP_HEADERS, CLIENT_HEADER, CREDENTIAL_HEADER]);
  const headers = [...own].filter(([name]) => !dropped.has(name));
  return [...headers, [CLIENT_HEADER, address], [CREDENTIAL_HEADER, token]];
}

function responseHeaders(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of HOP_BY_HOP_HEADERS) kept.delete(name);
  return kept;
}
