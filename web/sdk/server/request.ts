type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export type StoaOptions = {
  /** The server's address, for example `https://rtc.example.com`. */
  url: string;
  apiKey: string;
  /** How often a failed request is retried if a retry may help; 3 by default. */
  retries?: number;
  timeoutMs?: number;
  /** Replaces the global `fetch`. */
  fetch?: Fetch;
};

/** A refused request; `code` is the server's error code (`SVC_…`), and `requestId` identifies it in the server's log. */
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

export type CallOptions = { idempotencyKey?: string };
export type ApiResponse<T> = { body: T; headers: Headers };

/** A 409 is retried only if the first request with the idempotency key is still in progress. */
const RETRIED_STATUSES = new Set([408, 425, 429, 500, 502, 503, 504]);

const DOT_SEGMENT = /\/\.\.?(?:[/?]|$)/;

/** A client that passes on fields from elsewhere must not fill the log and the memory. */
const MAX_REPORTED_FIELDS = 100;

/** Sends the requests of all routes. Each POST has an idempotency key, so that a retry has no effect twice. */
export class HttpClient {
  readonly #base: string;
  readonly #apiKey: string;
  readonly #retries: number;
  readonly #timeoutMs: number;
  readonly #fetch: Fetch;
  readonly #reportedFields = new Set<string>();

  constructor(options: StoaOptions) {
    this.#base = options.url.replace(/\/+$/, "");
    this.#apiKey = options.apiKey;
    this.#retries = options.retries ?? 3;
    this.#timeoutMs = options.timeoutMs ?? 15_000;
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
  }

  async request<T>(method: string, path: string, body?: object, options: CallOptions = {}): Promise<ApiResponse<T>> {
    // `fetch` resolves them, even encoded, and requests another route: DELETE of a participant `..` would close its room.
    if (DOT_SEGMENT.test(path)) throw new TypeError(`No id or name is "." or "..": ${method} ${path}`);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#apiKey}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (method === "POST") headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };

    for (let attempt = 0; ; attempt++) {
      const last = attempt >= this.#retries;
      const response = await this.#fetchOnce(path, init).catch(async (error: unknown) => {
        if (last) throw unreachable(this.#base, error);
        await wait(backoffMs(attempt));
        return null;
      });
      if (response === null) continue;
      this.#reportIgnoredFields(method, path, response);
      if (response.ok) {
        return { body: (response.status === 204 ? undefined : await response.json()) as T, headers: response.headers };
      }
      const failure = await failureOf(response);
      const isRetryable = RETRIED_STATUSES.has(response.status) || failure.code === "SVC_IDEMPOTENCY_IN_PROGRESS";
      if (last || !isRetryable) throw failure;
      const retryAfterSeconds = Number(response.headers.get("retry-after"));
      await wait(retryAfterSeconds > 0 ? retryAfterSeconds * 1000 : backoffMs(attempt));
    }
  }

  /** Logs once which fields of a body the server does not know. */
  #reportIgnoredFields(method: string, path: string, { headers }: Response): void {
    const ignored = headers.get("stoa-ignored-fields");
    if (ignored === null || this.#reportedFields.has(ignored) || this.#reportedFields.size >= MAX_REPORTED_FIELDS)
      return;
    this.#reportedFields.add(ignored);
    console.warn(`stoa: ${method} ${path} ignored unknown fields: ${ignored}`);
  }

  #fetchOnce(path: string, init: RequestInit): Promise<Response> {
    return this.#fetch(this.#base + path, { ...init, signal: AbortSignal.timeout(this.#timeoutMs) });
  }
}

/** `fetch failed` names neither the server nor the reason, which is in the cause of Node's error and in the code of Bun's. */
function unreachable(base: string, error: unknown): Error {
  const { message, code, cause } = error as Error & { code?: unknown; cause?: { code?: unknown } };
  const reason = [cause?.code, code].find((one) => typeof one === "string") ?? message;
  return new Error(`${base} does not answer: ${reason}`, { cause: error });
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

/** A query string of the defined fields: `?a=1&b=2`. */
export function queryOf(fields: object): string {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? "" : `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`;
}
