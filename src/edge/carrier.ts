import type { Socket } from "bun";
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
  const carried = new Carried(front, null);
  connectByTable(target, carried, client, clients);
  return carried;
}

/** The same by the inner way, on which each request says for whom it is. */
export function carryWithin(
  way: InnerWay,
  target: Target,
  front: EdgeSocket,
  client: ClientAddress,
  clients: ClientTable,
): Carrier {
  const carried = new Carried(front, new RequestMarks(carriedLine(way, client.address)));
  const connecting = Bun.connect<Carried>({ unix: way.name, data: carried, socket: WITHIN });
  // Unlike a port, such a socket refuses at once when many wait to be accepted.
  connecting.catch(() => connectByTable(target, carried, client, clients));
  return carried;
}

/** There are many at a time that say nothing: what they need in common, they have in common. */
class Carried implements Carrier {
  readonly pipe: Pipe;
  #marks: RequestMarks | null;

  constructor(front: EdgeSocket, marks: RequestMarks | null) {
    this.pipe = new Pipe(front);
    this.#marks = marks;
  }

  received(data: Buffer): void {
    this.pipe.fromFront(this.#marks === null ? data : this.#marks.pass(data));
    if (this.#marks?.isDone) this.#marks = null;
  }

  drained(): void {
    this.pipe.frontDrained();
  }

  closed(): void {
    this.pipe.frontClosed();
  }
}

const PASSED_ON = {
  data: ({ data: { pipe } }: Socket<Carried>, data: Buffer) => pipe.fromBack(data),
  drain: ({ data: { pipe } }: Socket<Carried>) => pipe.backDrained(),
  end: (socket: Socket<Carried>) => void socket.end(),
  error: () => {},
};

const WITHIN = {
  ...PASSED_ON,
  open: (socket: Socket<Carried>) => socket.data.pipe.connected(socket),
  close: ({ data: { pipe } }: Socket<Carried>) => pipe.backClosed(),
};

function connectByTable(target: Target, carried: Carried, client: ClientAddress, clients: ClientTable): void {
  const { pipe } = carried;
  let ownPort: number | null = null;
  const connecting = Bun.connect<Carried>({
    ...target,
    data: carried,
    socket: {
      ...PASSED_ON,
      open(socket) {
        // Before the first byte: by the time it is read there, the table has it.
        ownPort = socket.localPort;
        clients.set(ownPort, client);
        socket.setNoDelay(true);
        pipe.connected(socket);
      },
      close() {
        if (ownPort !== null) clients.clear(ownPort);
        pipe.backClosed();
      },
      connectError: () => pipe.backClosed(),
    },
  });
  connecting.catch(() => pipe.backClosed());
}
