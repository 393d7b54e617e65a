import type { Log } from "../../kernel/log.ts";

const CHALLENGE_PATH = "/.well-known/acme-challenge/";

type Port80 = {
  /** Null: the port could not be had. */
  port: number | null;
  /** Null takes the proof away. */
  show(token: string, proof: string | null): void;
  stop(): Promise<void>;
};

/** Plain HTTP: proofs for the authority, and for everybody else the way to https. */
export function openPort80(options: { hostname: string; port: number; home: string; log: Log }): Port80 {
  const { hostname, port, home, log } = options;
  const proofs = new Map<string, string>();
  const answer = (request: Request): Response => {
    const { pathname, search } = new URL(request.url);
    if (pathname.startsWith(CHALLENGE_PATH)) {
      const proof = proofs.get(pathname.slice(CHALLENGE_PATH.length));
      if (proof !== undefined) return new Response(proof, { headers: { "content-type": "application/octet-stream" } });
    }
    return new Response(null, { status: 308, headers: { location: `${home}${pathname}${search}` } });
  };
  let server: Bun.Server<unknown> | null = null;
  try {
    server = Bun.serve({ hostname, port, fetch: answer, idleTimeout: 10, maxRequestBodySize: 0 });
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    log.warn({ port, problem }, "port for plain HTTP not to be had: no redirect to https, and no http-01 challenge");
  }
  return {
    port: server?.port ?? null,
    show(token, proof) {
      if (proof === null) proofs.delete(token);
      else proofs.set(token, proof);
    },
    stop: async () => server?.stop(true),
  };
}
