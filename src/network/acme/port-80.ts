import { messageOf } from "../../kernel/error-message.ts";
import type { Log } from "../../kernel/log.ts";

const CHALLENGE_PATH = "/.well-known/acme-challenge/";

type Port80 = {
  port: number | null;
  setProof(token: string, proof: string | null): void;
  stop(): Promise<void>;
};

type Port80Options = {
  hostname: string;
  port: number;
  /** An older process listens on the port as well. */
  reusePort?: boolean;
  home: string;
  log: Log;
};

/** Serves http-01 challenge responses to the certificate authority and redirects all other requests to https. */
export function openPort80(options: Port80Options): Port80 {
  const { hostname, port, reusePort = false, home, log } = options;
  const proofs = new Map<string, string>();
  const respond = (request: Request): Response => {
    const { pathname, search } = new URL(request.url);
    if (pathname.startsWith(CHALLENGE_PATH)) {
      const proof = proofs.get(pathname.slice(CHALLENGE_PATH.length));
      if (proof !== undefined) return new Response(proof, { headers: { "content-type": "application/octet-stream" } });
    }
    return new Response(null, { status: 308, headers: { location: `${home}${pathname}${search}` } });
  };
  let server: Bun.Server<unknown> | null = null;
  try {
    server = Bun.serve({ hostname, port, reusePort, fetch: respond, idleTimeout: 10, maxRequestBodySize: 0 });
  } catch (error) {
    const problem = messageOf(error);
    log.warn({ port, problem }, "acme: HTTP port unavailable, no redirect and no http-01 challenge");
  }
  return {
    port: server?.port ?? null,
    setProof(token, proof) {
      if (proof === null) proofs.delete(token);
      else proofs.set(token, proof);
    },
    stop: async () => server?.stop(true),
  };
}
