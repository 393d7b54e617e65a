import type { Socket } from "bun";
import { carriedLine, type InnerWay } from "../../kernel/net/inner-way.ts";
import type { ClientAddress, ClientTable } from "../../protocol/client-table.ts";
import { Pipe } from "./pipe.ts";
import { type Refusal, RequestMarks } from "./request-marks.ts";
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

const refusal = (status: string) => Buffer.from(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
const REFUSALS: Record<Refusal, Buffer> = {
  400: refusal("400 Bad Request"),
  431: refusal("431 Request Header Fields Too Large"),
};

/** There are many at a time that say nothing: what they need in common, they have in common. */
class Carried implements Carrier {
  readonly pipe: Pipe;
  #marks: RequestMarks | null;

  constructor(front: EdgeSocket, marks: RequestMarks | null) {
    this.pipe = new Pipe(front);
    this.#marks = marks;
  }

  received(data: Buffer): void {
    if (this.#marks === null) {
      this.pipe.fromFront(data);
      return;
    }
    const passed = this.#marks.pass(data);
    if (passed.length > 0) this.pipe.fromFront(passed);
    if (this.#marks.isDone) this.#marks = null;
    else if (this.#marks.refusal) this.pipe.refuse(REFUSALS[this.#marks.refusal]);
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
