import { retryAfterMs } from "../../kernel/http/retry-after.ts";
import { checkedFetch, codeOrNameOf } from "../../kernel/net/checked-fetch.ts";
import type { Target } from "../../kernel/net/targets.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import { VERSION } from "../../kernel/version.ts";

export type Outcome =
  | { kind: "answered"; statusCode: number; error: string | null; retryAfterMs: number | null; durationMs: number }
  | { kind: "unreachable"; error: string; durationMs: number }
  /** The server is stopping: the attempt does not count and is repeated after the restart. */
  | { kind: "abandoned" };

type AttemptRequest = {
  url: string;
  /** Returns whether the host may resolve to this address. */
  allows: (target: Target) => boolean;
  headers: Record<string, string>;
  body: string | Uint8Array<ArrayBuffer>;
  timeoutMs: number;
  /** The caller aborts it to abandon the attempt. */
  controller: AbortController;
};

/** The body of a response is ignored; a short one is read so that the connection can be reused. */
const MAX_READ_BYTES = 4096;
const MAX_RETRY_AFTER_MS = DAY_MS;

/**
 * The error is the same for every endpoint without an HTTP response, whether the connection was refused, timed out or
 * not allowed: otherwise the tenant that chooses the URL could learn which hosts and ports of the server's network are
 * open.
 */
const UNREACHABLE = "no HTTP response";

/**
 * One POST. Never throws, never follows a redirect, takes no longer than its timeout, and connects only to an IP
 * address that was checked.
 */
export async function attempt(
  runtime: Pick<Runtime, "fetch" | "lookup" | "log" | "now" | "timers">,
  request: AttemptRequest,
): Promise<Outcome> {
  const { log, now, timers } = runtime;
  const { url, timeoutMs, controller } = request;
  const startedAt = now();
  let late = false;
  const cancelTimeout = timers.after(timeoutMs, () => {
    late = true;
    controller.abort();
  });
  try {
    const { headers, body, allows } = request;
    const response = await checkedFetch(runtime, url, {
      method: "POST",
      allows,
      body,
      signal: controller.signal,
      headers: { "content-type": "application/json", "user-agent": `Stoa-Webhooks/${VERSION}`, ...headers },
    });
    const durationMs = now() - startedAt;
    await discard(response);
    const { status } = response;
    return {
      kind: "answered",
      statusCode: status,
      error: errorOf(status),
      retryAfterMs: status === 429 || status === 503 ? retryAfterMs(response, now(), MAX_RETRY_AFTER_MS) : null,
      durationMs,
    };
  } catch (error) {
    if (controller.signal.aborted && !late) return { kind: "abandoned" };
    const reason = late ? "timeout" : codeOrNameOf(error);
    log.debug({ host: new URL(url).host, reason }, "webhooks: endpoint unreachable");
    return { kind: "unreachable", error: UNREACHABLE, durationMs: now() - startedAt };
  } finally {
    cancelTimeout();
  }
}

function errorOf(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  return status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`;
}

/** Calls `cancel` rather than aborting the signal, because only `cancel` makes Bun close the connection and free its buffers. */
async function discard(response: Response): Promise<void> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    const length = Number(response.headers.get("content-length") ?? Number.NaN);
    let read = 0;
    while (length <= MAX_READ_BYTES && read <= MAX_READ_BYTES) {
      const { done, value } = await reader.read();
      if (done) return;
      read += value.byteLength;
    }
  } catch {
    // The status is known, so an error while reading the body is ignored.
  }
  await reader.cancel().catch(() => undefined);
}
