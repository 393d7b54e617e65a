import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import type { Now } from "../clock.ts";
import type { Certificate } from "./certificate.ts";

export type Listener = {
  readonly server: Server<unknown>;
  /** Sends to every socket subscribed to the topic, whichever certificate it came in under. */
  publish(topic: string, frame: string): void;
  /** New connections are met with this certificate from now on; open ones go on as they are. */
  renew(certificate: Certificate): void;
  /** Lets requests under way end until the deadline, then closes everything. */
  stop(deadline: number): Promise<void>;
};

type ListenOptions = { hostname: string; port: number; certificate: Certificate | undefined; now: Now };

/**
 * The HTTP server. A Bun server keeps the certificate it was started with: for another one a second server takes over
 * the port, and the first goes on without it for as long as its sockets stay.
 */
export function listen(app: AnyElysia, { hostname, port, certificate, now }: ListenOptions): Listener {
  const retired = new Set<Server<unknown>>();
  let inUse = certificate;
  let current = begin(port, certificate);
  // A stopped server has forgotten its own.
  const boundPort = current.port ?? port;

  function begin(onPort: number, tls: Certificate | undefined): Server<unknown> {
    // Elysia shares the port by default: a second server on the same port would silently take half of the requests.
    app.listen({ hostname, port: onPort, reusePort: false, tls });
    if (!app.server) throw new Error("the HTTP server did not start");
    return app.server;
  }

  return {
    get server() {
      return current;
    },

    publish(topic, frame) {
      current.publish(topic, frame);
      for (const server of retired) server.publish(topic, frame);
    },

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
