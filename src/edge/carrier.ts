import type { ClientAddress, ClientTable } from "../protocol/client-table.ts";
import { Pipe } from "./pipe.ts";
import type { EdgeSocket } from "./socket.ts";

/** What becomes of a client's bytes once it is known what they are. */
export type Carrier = {
  received(data: Buffer): void;
  drained(): void;
  closed(): void;
};

type Target = { hostname: string; port: number };

/** Carries a connection on to a server of this machine, which finds in the table for whom. */
export function carryTo(target: Target, front: EdgeSocket, client: ClientAddress, clients: ClientTable): Carrier {
  const pipe = new Pipe(front);
  let ownPort: number | null = null;
  const connecting = Bun.connect({
    ...target,
    socket: {
      open(socket) {
        // Before the first byte: by the time it is read there, the table has it.
        ownPort = socket.localPort;
        clients.set(ownPort, client);
        socket.setNoDelay(true);
        pipe.connected(socket);
      },
      data: (_socket, data) => pipe.fromBack(data),
      drain: () => pipe.backDrained(),
      end: (socket) => void socket.end(),
      close() {
        if (ownPort !== null) clients.clear(ownPort);
        pipe.backClosed();
      },
      error: () => {},
      connectError: () => pipe.backClosed(),
    },
  });
  connecting.catch(() => pipe.backClosed());
  return {
    received: (data) => pipe.fromFront(data),
    drained: () => pipe.frontDrained(),
    closed: () => pipe.frontClosed(),
  };
}
