import { plainAddress } from "../../kernel/addresses.ts";
import { sameSecret } from "../../kernel/secrets.ts";

/** Where the sockets of an edge come in. */
export const EDGE_PATH = "/v1/cluster/edge";

/** How an edge says who asked, and shows that it may. */
const CLIENT_HEADER = "x-stoa-edge-client";
const CREDENTIAL_HEADER = "x-stoa-edge";
/** Between two hops only, or made anew by whoever sends it on. */
const HOP_HEADERS = new Set(["connection", "keep-alive", "transfer-encoding", "te", "trailer", "proxy-connection"]);

/** The address of whoever asked an edge; null for a request that no edge carries. */
export function carriedClient(request: Request, credential: string): string | null {
  const shown = request.headers.get(CREDENTIAL_HEADER);
  if (shown === null || !sameSecret(shown, credential)) return null;
  return plainAddress(request.headers.get(CLIENT_HEADER) ?? "");
}

/** The headers of a request as an edge sends it on. What a client says in the name of an edge is left out. */
export function carriedHeaders(request: Request, address: string, credential: string): [string, string][] {
  const headers = [...request.headers].filter(
    ([name]) => !HOP_HEADERS.has(name) && name !== CLIENT_HEADER && name !== CREDENTIAL_HEADER,
  );
  return [...headers, [CLIENT_HEADER, address], [CREDENTIAL_HEADER, credential]];
}

/** The headers of an answer as an edge gives it. */
export function answeredHeaders(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of HOP_HEADERS) kept.delete(name);
  return kept;
}
