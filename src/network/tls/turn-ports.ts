import type { TCPSocketListener } from "bun";
import { plainAddress } from "../../kernel/net/addresses.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import type { ClientTransport } from "../turn/transports.ts";
import type { TurnServer } from "../turn/server.ts";
import type { Admission } from "./admission.ts";
import type { ConnectionHandler } from "./http-forwarding.ts";
import type { StreamSocket } from "./sockets.ts";

type TurnPorts = { port: number };

type Place = { hostname: string; port: number };
type Carry = (socket: StreamSocket, client: ClientAddress) => ConnectionHandler;

const TRIES = 20;

/** The port of TURN without TLS could not be had. */
export class TurnPortRefused extends Error {
  override readonly name = "TurnPortRefused";
  readonly code: string | null;
  constructor(
    cause: unknown,
    readonly port: number,
  ) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.code = cause instanceof Error && "code" in cause ? String(cause.code) : null;
  }
}

/** TURN without TLS, over UDP and TCP on one port: for networks that let out this much and no more. */
export async function openTurnPorts(
  place: Place,
  server: TurnServer,
  admission: Admission,
  carry: Carry,
): Promise<TurnPorts> {
  for (let attempt = 1; ; attempt++) {
    let udp: Bun.udp.Socket<"buffer"> | null = null;
    try {
      udp = await openUdp(place, server);
      const { port } = udp;
      openTcp({ hostname: place.hostname, port }, admission, carry);
      return { port };
    } catch (error) {
      udp?.close();
      // Any port will do, and this one is somebody's over TCP.
      if (place.port !== 0 || attempt === TRIES) throw new TurnPortRefused(error, place.port);
    }
  }
}

function openUdp({ hostname, port }: Place, server: TurnServer): Promise<Bun.udp.Socket<"buffer">> {
  /** Only clients that hold an allocation; of others nothing is remembered. */
  const lines = new Map<string, ClientTransport>();
  return Bun.udpSocket({
    hostname,
    port,
    binaryType: "buffer",
    socket: {
      data(socket, data, remotePort, remoteAddress) {
        const key = `${remoteAddress} ${remotePort}`;
        const line = lines.get(key) ?? {
          address: plainAddress(remoteAddress),
          port: remotePort,
          protocol: "udp" as const,
          send: (message) => sent(socket, message, remotePort, remoteAddress),
          close: () => void lines.delete(key),
        };
        server.receive(data, line);
        if (server.hasAllocation(line)) lines.set(key, line);
        else lines.delete(key);
      },
      error: () => {},
    },
  });
}

/** An address that a datagram only claims to come from may be one that nothing can be sent to. */
function sent(socket: Bun.udp.Socket<"buffer">, message: Uint8Array, port: number, address: string): boolean {
  try {
    return socket.send(message, port, address);
  } catch {
    return false;
  }
}

type Guest = { connection: ConnectionHandler; settled: () => void };

function openTcp({ hostname, port }: Place, admission: Admission, carry: Carry): TCPSocketListener<Guest | null> {
  return Bun.listen<Guest | null>({
    hostname,
    port,
    socket: {
      open(socket) {
        const client = { address: plainAddress(socket.remoteAddress), port: socket.remotePort };
        const settled = admission.admit(client.address, () => socket.terminate());
        if (!settled) {
          socket.terminate();
          return;
        }
        socket.setNoDelay(true);
        socket.data = { connection: carry(socket, client), settled };
      },
      data({ data: guest }, bytes) {
        guest?.settled();
        guest?.connection.received(bytes);
      },
      drain: ({ data: guest }) => guest?.connection.drained(),
      end: (socket) => void socket.end(),
      close({ data: guest }) {
        guest?.settled();
        guest?.connection.closed();
      },
      error: () => {},
    },
    data: null,
  });
}
