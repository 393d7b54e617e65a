import type { RtcTokenCaller } from "../../kernel/http/callers.ts";

/** A page that is loaded again is another connection; nobody loads it this often with one token and never joins. */
const PER_TOKEN = 20;
/** Tokens that are remembered; past this many the one that began first is forgotten. */
const TOKENS = 5_000;

/** How many records of connections a client has opened by telemetry alone. The server's own records do not count. */
export function createOpenedByClients() {
  const counts = new Map<string, number>();

  return {
    /** Whether this token may open one more; counted when it may. One that can never join has no connection. */
    take({ tokenId, permissions }: RtcTokenCaller): boolean {
      if (!permissions.join) return false;
      const count = counts.get(tokenId) ?? 0;
      if (count >= PER_TOKEN) return false;
      counts.set(tokenId, count + 1);
      if (counts.size > TOKENS) for (const oldest of counts.keys()) return counts.delete(oldest);
      return true;
    },
  };
}
