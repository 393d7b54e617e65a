import { createServer, connect as dial, type Socket } from "node:net";

/** A TCP proxy between browser and server that can be cut. */
export type Network = {
  port: number;
  /** Drops packets in both directions; connections stay open unless an end gives them up. */
  silence(): void;
  /** Resets all connections, including new ones. */
  reset(): void;
  heal(): void;
  close(): void;
};

type Condition = "fine" | "silent" | "reset";

/** Forwards TCP connections to `serverPort`. */
export async function openNetwork(serverPort: number): Promise<Network> {
  let condition: Condition = "fine";
  const pairs = new Set<[Socket, Socket]>();
  const waiting = new Set<Socket>();

  const link = (client: Socket) => {
    const server = dial(serverPort, "127.0.0.1");
    const pair: [Socket, Socket] = [client, server];
    pairs.add(pair);
    for (const [from, to] of [pair, [server, client] as const]) {
      from.on("error", () => {});
      from.pipe(to);
      from.on("close", () => {
        pairs.delete(pair);
        // While silent, the close of the other end is not forwarded either.
        if (condition !== "silent") to.destroy();
      });
    }
  };

  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    client.on("error", () => {});
    if (condition === "fine") return link(client);
    if (condition === "reset") return client.resetAndDestroy();
    client.pause();
    waiting.add(client);
  });
  await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));

  return {
    port: (proxy.address() as { port: number }).port,
    silence() {
      condition = "silent";
      for (const [client, server] of pairs) {
        client.unpipe(server).pause();
        server.unpipe(client).pause();
      }
    },
    reset() {
      condition = "reset";
      for (const socket of [...pairs].flat()) socket.resetAndDestroy();
    },
    heal() {
      condition = "fine";
      for (const [client, server] of pairs) {
        if (client.destroyed || server.destroyed) {
          client.destroy();
          server.destroy();
          continue;
        }
        client.pipe(server);
        server.pipe(client);
      }
      for (const client of waiting) if (!client.destroyed) link(client);
      waiting.clear();
    },
    close() {
      for (const socket of [...pairs].flat()) socket.destroy();
      for (const socket of waiting) socket.destroy();
      proxy.close();
    },
  };
}
