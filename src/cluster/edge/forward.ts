import { answeredHeaders, carriedHeaders } from "./carried-client.ts";
import type { LeaderLink } from "./leader-link.ts";

/** How long a request waits for somebody to lead. */
export const PATIENCE_MS = 5_000;

type ForwardDeps = { link: Pick<LeaderLink, "reached" | "silence">; credential: string };

/**
 * Carries a request to the leader and its answer back, both as they come. Null when nobody could be asked. What changes
 * nothing is asked again of the next leader; what may have been done is not done twice.
 */
export async function forward(request: Request, address: string, deps: ForwardDeps): Promise<Response | null> {
  const { method } = request;
  const isSafe = method === "GET" || method === "HEAD";
  const { pathname, search } = new URL(request.url);
  for (let attempt = 0; attempt < (isSafe ? 2 : 1); attempt++) {
    const leader = await deps.link.reached(PATIENCE_MS);
    if (leader === null) return null;
    try {
      const answer = await fetch(`${leader}${pathname}${search}`, {
        method,
        headers: carriedHeaders(request, address, deps.credential),
        body: isSafe ? undefined : request.body,
        redirect: "manual",
        // As it is: whoever asked takes it apart.
        decompress: false,
        signal: AbortSignal.any([request.signal, deps.link.silence]),
      });
      return new Response(answer.body, { status: answer.status, headers: answeredHeaders(answer.headers) });
    } catch {
      if (request.signal.aborted) return null;
    }
  }
  return null;
}
