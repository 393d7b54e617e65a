import { sameSecret } from "../../kernel/crypto/secrets.ts";
import { UNKNOWN_ADDRESS, unmappedAddress } from "../../kernel/net/addresses.ts";
import type { LeaderLink } from "./leader-link.ts";

const CLIENT_HEADER = "x-stoa-edge-client";
const CREDENTIAL_HEADER = "x-stoa-edge";
const HOP_BY_HOP_HEADERS = ["connection", "keep-alive", "transfer-encoding", "te", "trailer", "proxy-connection"];

export const LEADER_WAIT_MS = 5_000;

type ForwardDeps = { link: Pick<LeaderLink, "waitForLeader" | "unreachable">; credential: string };

/**
 * Streams a request to the leader and its response back; null when no leader answered. GET and HEAD are repeated at the
 * next leader. Other methods are not: the first leader may have carried them out.
 */
export async function forward(request: Request, address: string, deps: ForwardDeps): Promise<Response | null> {
  const { method } = request;
  const isSafe = method === "GET" || method === "HEAD";
  const { pathname, search } = new URL(request.url);
  for (let attempt = 0; attempt < (isSafe ? 2 : 1); attempt++) {
    const leader = await deps.link.waitForLeader(LEADER_WAIT_MS);
    if (leader === null) return null;
    try {
      const response = await fetch(`${leader}${pathname}${search}`, {
        method,
        headers: forwardedHeaders(request, address, deps.credential),
        body: isSafe ? undefined : request.body,
        redirect: "manual",
        // The client decompresses the body.
        decompress: false,
        signal: AbortSignal.any([request.signal, deps.link.unreachable]),
      });
      return new Response(response.body, { status: response.status, headers: responseHeaders(response.headers) });
    } catch {
      if (request.signal.aborted) return null;
    }
  }
  return null;
}

/** The address of a proxy's client; null for a request that did not come through a proxy. */
export function forwardedClientAddress(request: Request, credential: string): string | null {
  const shown = request.headers.get(CREDENTIAL_HEADER);
  if (shown === null || !sameSecret(shown, credential)) return null;
  return unmappedAddress(request.headers.get(CLIENT_HEADER) ?? UNKNOWN_ADDRESS);
}

/** The proxy's own headers replace those that a client sent under the same names. */
export function forwardedHeaders(request: Request, address: string, credential: string): [string, string][] {
  const dropped = new Set([...HOP_BY_HOP_HEADERS, CLIENT_HEADER, CREDENTIAL_HEADER]);
  const headers = [...request.headers].filter(([name]) => !dropped.has(name));
  return [...headers, [CLIENT_HEADER, address], [CREDENTIAL_HEADER, credential]];
}

function responseHeaders(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of HOP_BY_HOP_HEADERS) kept.delete(name);
  return kept;
}
