import { createServer, type Socket } from "node:net";

export type LoopbackRelay = { port: number; close(): void };

/**
 * Listens on a loopback port for a child process whose connections this process passes on. `serve` names the upstream of each
 * client with `joinTo`; from then on, the end of one closes the other.
 */
export async function openLoopbackRelay(
  serve: (client: Socket, joinTo: (upstream: Socket) => void) => void,
): Promise<LoopbackRelay> {
  const open = new Set<Socket>();
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => open.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    serve(client, (upstream) => {
      keep(upstream);
      client.on("close", () => upstream.destroy());
      upstream.on("close", () => client.destroy());
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    close() {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}
