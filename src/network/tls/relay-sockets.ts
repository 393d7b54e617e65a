import { isIP } from "node:net";
import type { ClientTable } from "../../protocol/client-table.ts";
import { canonical } from "../turn/address.ts";
import type { OpenRelay, RelayRequest } from "../turn/transports.ts";

const LOOPBACK = "127.0.0.1";

/**
 * Each peer of an allocation has its own connected socket, to which only that peer can send. A media worker of this
 * machine is reached over loopback and finds the client in the table.
 */
export function relaySockets(localClients: ClientTable, nodeClients: ClientTable): OpenRelay {
  return async (request) => {
    const isLocal = request.peer.reached.address === LOOPBACK;
    const clients = isLocal ? localClients : nodeClients;
    const socket = isLocal ? await connect(request, { hostname: LOOPBACK, port: 0 }) : await connectToNode(request);
    const { port } = socket;
    clients.set(port, request.client, request.relayed);
    return {
      send: (data) => send(socket, data),
      close() {
        clients.clear(port);
        socket.close();
      },
    };
  };
}

/** A node sees the relayed address that the client uses, if that address belongs to this machine. */
function connectToNode(request: RelayRequest) {
  const { address, port } = request.relayed;
  return connect(request, { hostname: address, port }).catch(() => connect(request, {}));
}

function connect({ peer, onPacket }: RelayRequest, bind: { hostname?: string; port?: number }) {
  const { address, port } = peer.reached;
  const family = isIP(canonical(address)) === 6 ? "::" : "0.0.0.0";
  return Bun.udpSocket({
    hostname: family,
    ...bind,
    binaryType: "buffer",
    connect: { hostname: address, port },
    // A closed media port responds with ICMP, which would be an uncaught error without a handler.
    socket: { data: (_socket, data) => onPacket(data), error: () => {} },
  });
}

function send(socket: Bun.udp.ConnectedSocket<"buffer">, data: Uint8Array): void {
  try {
    socket.send(data);
  } catch {}
}
