import type { Runtime } from "../../kernel/runtime.ts";
import { VERSION } from "../../kernel/version.ts";

export type Outcome =
  | { kind: "answered"; statusCode: number; error: string | null; retryAfterMs: number | null; durationMs: number }
  | { kind: "unreachable"; error: string; durationMs: number }
  /** The server is stopping: the attempt does not count and is made again after the restart. */
  | { kind: "abandoned" };

type AttemptRequest = {
  url: string;
  headers: Record<string, string>;
  body: string | Uint8Array<ArrayBuffer>;
  timeoutMs: number;
  /** The caller aborts it to abandon the attempt. */
  controller: AbortController;
};

/** The body of a response is ignored; a short one is read so that the connection can be reused. */
const MAX_READ_BYTES = 4096;

/** One POST. Never throws, never follows a redirect, and takes no longer than its timeout. */
export async function attempt(
  { fetch, now, timers }: Pick<Runtime, "fetch" | "now" | "timers">,
  request: AttemptRequest,
): Promise<Outcome> {
  const { url, headers, body, timeoutMs, controller } = request;
  const startedAt = now();
  let late = false;
  const cancelTimeout = timers.after(timeoutMs, () => {
    late = true;
    controller.abort();
  });
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": `Stoa-Webhooks/${VERSION}`, ...headers },
      body,
      redirect: "manual",
      decompress: false,
      signal: controller.signal,
    });
    const durationMs = now() - startedAt;
    await discard(response);
    const { status } = response;
    return {
      kind: "answered",
      statusCode: status,
      error: errorOf(status),
      retryAfterMs: retryAfterMs(response, now()),
      durationMs,
    };
  } catch (error) {
    if (controller.signal.aborted && !late) return { kind: "abandoned" };
    const reason = late ? `no answer within ${timeoutMs} ms` : connectionError(error);
    return { kind: "unreachable", error: reason, durationMs: now() - startedAt };
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
    // The status is known, so a body that fails does not matter.
  }
  await reader.cancel().catch(() => undefined);
}

const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** `Retry-After` of a 429 or 503: seconds or an HTTP date. */
function retryAfterMs({ status, headers }: Response, now: number): number | null {
  const text = headers.get("retry-after");
  if (text === null || (status !== 429 && status !== 503)) return null;
  const ms = /^\d+$/.test(text.trim()) ? Number(text) * 1000 : Date.parse(text) - now;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : null;
}

const CONNECTION_ERRORS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection closed without an answer",
  ENOTFOUND: "host name not found",
  Malformed_HTTP_Response: "the answer is not HTTP",
  ResponseHeadersTooLarge: "the answer's headers are too large",
};

/** Uses the code alone: the message repeats the URL, which may contain a secret. */
function connectionError(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: string };
  if (typeof code !== "string") return `connection failed (${name ?? "unknown"})`;
  return CONNECTION_ERRORS[code] ?? `connection failed (${code})`;
}
