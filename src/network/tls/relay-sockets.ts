import { isIP } from "node:net";
import type { ClientTable } from "../../protocol/client-table.ts";
import { canonical } from "../turn/address.ts";
import type { OpenRelay, RelayRequest, RelaySocket } from "../turn/transports.ts";

/**
 * One connected socket for each peer of an allocation: only that peer can send to it, so nothing of the relay listens to
 * the outside. A media worker of this machine is reached over loopback, and finds in the table who that is.
 */
export function relaySockets(clients: ClientTable, outer: ClientTable): OpenRelay {
  return (request) => (isLocal(request) ? loopbackSocket(request, clients) : outerSocket(request, outer));
}

function isLocal({ peer }: RelayRequest): boolean {
  return peer.reached.address === "127.0.0.1";
}

async function loopbackSocket(request: RelayRequest, clients: ClientTable): Promise<RelaySocket> {
  const socket = await connected(request, { hostname: "127.0.0.1", port: 0 });
  const { port } = socket;
  clients.set(port, request.client, request.relayed);
  return {
    send: (data) => send(socket, data),
    close() {
      clients.clear(port);
      socket.close();
    },
  };
}

/** From the relayed address itself where it is this machine's: then a node sees the very address that the client names. */
async function outerSocket(request: RelayRequest, outer: ClientTable): Promise<RelaySocket> {
  const bind = { hostname: request.relayed.address, port: request.relayed.port };
  const socket = await connected(request, bind).catch(() => connected(request, {}));
  const { port } = socket;
  outer.set(port, request.client, request.relayed);
  return {
    send: (data) => send(socket, data),
    close() {
      outer.clear(port);
      socket.close();
    },
  };
}

function connected({ peer, onPacket }: RelayRequest, bind: { hostname?: string; port?: number }) {
  const { address, port } = peer.reached;
  const family = isIP(canonical(address)) === 6 ? "::" : "0.0.0.0";
  return Bun.udpSocket({
    hostname: family,
    ...bind,
    binaryType: "buffer",
    connect: { hostname: address, port },
    // A media port that is gone for a moment answers by ICMP; without a handler that would be an uncaught error.
    socket: { data: (_socket, data) => onPacket(data), error: () => {} },
  });
}

function send(socket: Bun.udp.ConnectedSocket<"buffer">, data: Uint8Array): void {
  try {
    socket.send(data);
  } catch {
    // Lost, as datagrams are.
  }
}
