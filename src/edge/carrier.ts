import { carriedLine, type InnerWay } from "../kernel/net/inner-way.ts";
import type { ClientAddress, ClientTable } from "../protocol/client-table.ts";
import { Pipe } from "./pipe.ts";
import { RequestMarks } from "./request-marks.ts";
import type { EdgeSocket } from "./socket.ts";

/** What becomes of a client's bytes once it is known what they are. */
export type Carrier = {
  received(data: Buffer): void;
  drained(): void;
  closed(): void;
};

export type Target = { hostname: string; port: number };

/** Carries a connection on to a server of this machine, which finds in the table for whom. */
export function carryTo(target: Target, front: EdgeSocket, client: ClientAddress, clients: ClientTable): Carrier {
  const pipe = new Pipe(front);
  connectByTable(target, pipe, client, clients);
  return carrierOf(pipe);
}

/** The same by the inner way, on which each request says for whom it is. */
export function carryWithin(
  way: InnerWay,
  target: Target,
  front: EdgeSocket,
  client: ClientAddress,
  clients: ClientTable,
): Carrier {
  const pipe = new Pipe(front);
  const marks = new RequestMarks(carriedLine(way, client.address));
  let isOpen = false;
  const connecting = Bun.connect({
    unix: way.name,
    socket: {
      open(socket) {
        isOpen = true;
        pipe.connected(socket);
      },
      ...passedOn(pipe),
      close: () => pipe.backClosed(),
    },
  });
  // Unlike a port, such a socket refuses at once when many wait to be accepted.
  connecting.catch(() => {
    if (!isOpen) connectByTable(target, pipe, client, clients);
  });
  return { ...carrierOf(pipe), received: (data) => pipe.fromFront(marks.pass(data)) };
}

function connectByTable(target: Target, pipe: Pipe, client: ClientAddress, clients: ClientTable): void {
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
      ...passedOn(pipe),
      close() {
        if (ownPort !== null) clients.clear(ownPort);
        pipe.backClosed();
      },
      connectError: () => pipe.backClosed(),
    },
  });
  connecting.catch(() => pipe.backClosed());
}

function passedOn(pipe: Pipe) {
  return {
    data: (_socket: EdgeSocket, data: Buffer) => pipe.fromBack(data),
    drain: () => pipe.backDrained(),
    end: (socket: EdgeSocket) => socket.end(),
    error: () => {},
  };
}

function carrierOf(pipe: Pipe): Carrier {
  return {
    received: (data) => pipe.fromFront(data),
    drained: () => pipe.frontDrained(),
    closed: () => pipe.frontClosed(),
  };
}
