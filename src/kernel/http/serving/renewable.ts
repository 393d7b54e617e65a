import type { Server } from "bun";
import type { Now } from "../../clock.ts";
import type { Certificate } from "./certificate.ts";

export type Renewable<Data> = {
  /** The one that takes new connections. */
  readonly server: Server<Data>;
  /** That one, and those whose sockets came in under an earlier certificate. */
  servers(): Server<Data>[];
  /** New connections are met with this certificate from now on; open ones go on as they are. */
  renew(certificate: Certificate): void;
  /** Lets requests under way end until the deadline, then closes everything. */
  stop(deadline: number): Promise<void>;
};

type Begin<Data> = (port: number, certificate: Certificate | undefined) => Server<Data>;
type Options = { port: number; certificate: Certificate | undefined; now: Now };

/**
 * A Bun server keeps the certificate it was started with: for another one a second server takes over the port, and the
 * first goes on without it for as long as its sockets stay.
 */
export function serveRenewably<Data>(begin: Begin<Data>, { port, certificate, now }: Options): Renewable<Data> {
  const retired = new Set<Server<Data>>();
  let inUse = certificate;
  let current = begin(port, certificate);
  // A stopped server has forgotten its own.
  const boundPort = current.port ?? port;

  return {
    get server() {
      return current;
    },

    servers: () => [current, ...retired],

    renew(renewed) {
      const before = current;
      retired.add(before);
      // The port is free as soon as this returns; the promise waits for the last socket.
      void before.stop().then(() => retired.delete(before));
      try {
        current = begin(boundPort, renewed);
        inUse = renewed;
      } catch (error) {
        current = begin(boundPort, inUse);
        throw error;
      }
    },

    async stop(deadline) {
      const servers = [current, ...retired];
      const ended = Promise.all(servers.map((server) => server.stop()));
      await Promise.race([ended, Bun.sleep(Math.max(0, deadline - now()))]);
      await Promise.all(servers.map((server) => server.stop(true)));
    },
  };
}
