import { hostInUrl } from "./addresses.ts";
import { allowedAddresses, type Lookup, type Target } from "./targets.ts";

type CheckedRequest = {
  method: "GET" | "POST" | "PUT";
  /** Whether the host may resolve to an address of this kind. */
  allows: (target: Target) => boolean;
  headers: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer> | Blob;
  signal: AbortSignal;
};

/**
 * A request to a URL that a tenant or a client chose: it follows no redirect and connects only to an IP address that was
 * checked, the first of the host's addresses that accepts the connection.
 */
export async function checkedFetch(
  { fetch, lookup }: { fetch: typeof globalThis.fetch; lookup: Lookup },
  requestUrl: string,
  { allows, headers, signal, ...init }: CheckedRequest,
): Promise<Response> {
  const url = new URL(requestUrl);
  const addresses = await Promise.race([allowedAddresses(url, allows, lookup), abortion(signal)]);
  const { host, hostname } = url;
  let failure: unknown = new Error("no address that may be connected to");
  for (const address of addresses) {
    url.hostname = hostInUrl(address);
    try {
      return await fetch(url, {
        ...init,
        headers: { ...headers, host },
        redirect: "manual",
        decompress: false,
        // The certificate is checked against the host name, not the IP address.
        ...(url.hostname === hostname ? {} : { tls: { serverName: hostname.replace(/\.$/, "") } }),
        signal,
      });
    } catch (error) {
      failure = error;
      if (!NOT_CONNECTED.has(codeOrNameOf(error)) || signal.aborted) break;
    }
  }
  throw failure;
}

/**
 * The body as text; null if it is longer than `maxBytes`. No more than that is read and kept, because the other side may be
 * hostile.
 */
export async function boundedText(response: Response, maxBytes: number): Promise<string | null> {
  const parts: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop early cancels the body, and with it the connection.
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > maxBytes) return null;
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Errors before the request is sent, after which another IP address may be tried. */
const NOT_CONNECTED = new Set([
  "ECONNREFUSED",
  "ConnectionRefused",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "FailedToOpenSocket",
]);

function abortion(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Only the code of the error is used: its message repeats the URL, which may contain a secret. */
export function codeOrNameOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: string };
  return typeof code === "string" ? code : (name ?? "unknown");
}
