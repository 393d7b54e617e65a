import { codeOf, messageOf } from "../../kernel/error-message.ts";
import { unmappedAddress } from "../../kernel/net/addresses.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import type { TurnServer } from "../turn/server.ts";
import type { ClientTransport } from "../turn/transports.ts";
import type { Admission } from "./admission.ts";
import type { ConnectionHandler, StreamSocket } from "./sockets.ts";

type BindAddress = { hostname: string; port: number };
type HandleTcp = (socket: StreamSocket, client: ClientAddress) => ConnectionHandler;

const MAX_ATTEMPTS = 20;

export class TurnPortRefused extends Error {
  override readonly name = "TurnPortRefused";
  readonly code: string | null;
  constructor(
    cause: unknown,
    readonly port: number,
  ) {
    super(messageOf(cause), { cause });
    this.code = codeOf(cause);
  }
}

/** Returns the port, which the system chooses if that of the address is 0. */
export async function openTurnPorts(
  address: BindAddress,
  server: TurnServer,
  admission: Admission,
  handleTcp: HandleTcp,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    let udp: Bun.udp.Socket<"buffer"> | null = null;
    try {
      udp = await openUdp(address, server);
      const { port } = udp;
      openTcp({ hostname: address.hostname, port }, admission, handleTcp);
      return port;
    } catch (error) {
      udp?.close();
      // The port that the system chose for UDP may be in use for TCP; another port may be free for both.
      if (address.port !== 0 || attempt === MAX_ATTEMPTS) throw new TurnPortRefused(error, address.port);
    }
  }
}

function openUdp({ hostname, port }: BindAddress, server: TurnServer): Promise<Bun.udp.Socket<"buffer">> {
  /** Clients without an allocation are not kept. */
  const clients = new Map<string, ClientTransport>();
  return Bun.udpSocket({
    hostname,
    port,
    binaryType: "buffer",
    socket: {
      data(socket, data, remotePort, remoteAddress) {
        const key = `${remoteAddress} ${remotePort}`;
        const client = clients.get(key) ?? {
          address: unmappedAddress(remoteAddress),
          port: remotePort,
          protocol: "udp" as const,
          send: (message) => send(socket, message, remotePort, remoteAddress),
          close: () => void clients.delete(key),
        };
        server.receive(data, client);
        if (server.hasAllocation(client)) clients.set(key, client);
        else clients.delete(key);
      },
      error: () => {},
    },
  });
}

/** A spoofed source address may be invalid as a destination. */
function send(socket: Bun.udp.Socket<"buffer">, message: Uint8Array, port: number, address: string): boolean {
  try {
    return socket.send(message, port, address);
  } catch {
    return false;
  }
}

type TcpClient = { handler: ConnectionHandler; settled: () => void };

function openTcp({ hostname, port }: BindAddress, admission: Admission, handleTcp: HandleTcp): void {
  Bun.listen<TcpClient | null>({
    hostname,
    port,
    socket: {
      open(socket) {
        const client = { address: unmappedAddress(socket.remoteAddress), port: socket.remotePort };
        const settled = admission.admit(client.address, () => socket.terminate());
        if (!settled) {
          socket.terminate();
          return;
        }
        socket.setNoDelay(true);
        socket.data = { handler: handleTcp(socket, client), settled };
      },
      data({ data: client }, bytes) {
        client?.settled();
        client?.handler.received(bytes);
      },
      drain: ({ data: client }) => client?.handler.drained(),
      end: (socket) => void socket.end(),
      close({ data: client }) {
        client?.settled();
        client?.handler.closed();
      },
      error: () => {},
    },
    data: null,
  });
}
