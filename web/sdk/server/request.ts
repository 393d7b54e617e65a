export type StoaOptions = {
  /** Where the server is: `https://rtc.example.com`. */
  url: string;
  apiKey: string;
  /** Tries after the first, for answers that may differ next time; 3 unless given. */
  retries?: number;
  timeoutMs?: number;
  fetch?: typeof fetch;
};

/** A refused request: `code` is the server's (`SVC_…`), `requestId` finds it in the server's log. */
export class StoaApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
    readonly body: Record<string, unknown>,
  ) {
    super(message);
    this.name = "StoaApiError";
  }
}

export type Call = <T>(method: string, path: string, body?: object, options?: CallOptions) => Promise<T>;
export type CallOptions = { idempotencyKey?: string };

/** 409 only when it says so itself: the first request with this idempotency key is still running. */
const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** One caller for all routes. A POST carries an idempotency key of its own, so that a retry never does a thing twice. */
export function createCall({ url, apiKey, retries = 3, timeoutMs = 15_000, fetch: ask = fetch }: StoaOptions): Call {
  const base = url.replace(/\/+$/, "");
  return async <T>(method: string, path: string, body?: object, options: CallOptions = {}) => {
    const headers: Record<string, string> = { authorization: `Bearer ${apiKey}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (method === "POST") headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();

    for (let attempt = 0; ; attempt++) {
      const last = attempt >= retries;
      let response: Response;
      try {
        response = await ask(base + path, {
          method,
          headers,
          body: body === undefined ? undefined : JSON.stringify(body),
          signal: AbortSignal.timeout(timeoutMs),
        });
      } catch (error) {
        if (last) throw error;
        await wait(backoffMs(attempt));
        continue;
      }
      if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
      const failure = await failureOf(response);
      const again = RETRIED.has(response.status) || failure.code === "SVC_IDEMPOTENCY_IN_PROGRESS";
      if (last || !again) throw failure;
      const asked = Number(response.headers.get("retry-after"));
      await wait(asked > 0 ? asked * 1000 : backoffMs(attempt));
    }
  };
}

async function failureOf(response: Response): Promise<StoaApiError> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const code = typeof body.code === "string" ? body.code : `HTTP_${response.status}`;
  const message = typeof body.message === "string" ? body.message : response.statusText;
  return new StoaApiError(response.status, code, message, response.headers.get("x-request-id"), body);
}

function backoffMs(attempt: number): number {
  return 200 * 2 ** attempt * (0.5 + Math.random() / 2);
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** `?a=1&b=2` of what is defined. */
export function queryOf(fields: object): string {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? "" : `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`;
}
