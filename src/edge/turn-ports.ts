import { plainAddress } from "../kernel/addresses.ts";
import type { ClientAddress } from "../protocol/client-table.ts";
import type { TurnLine } from "../turn/line.ts";
import type { TurnServer } from "../turn/server.ts";
import type { Admission } from "./admission.ts";
import type { Carrier } from "./carrier.ts";
import type { EdgeSocket } from "./socket.ts";

type TurnPorts = { port: number; close(): void };

/** TURN without TLS, over UDP and TCP on one port: for networks that let out this much and no more. */
export async function openTurnPorts(
  { hostname, port }: { hostname: string; port: number },
  server: TurnServer,
  admission: Admission,
  carry: (socket: EdgeSocket, client: ClientAddress) => Carrier,
): Promise<TurnPorts> {
  /** Only clients that hold an allocation; of others nothing is remembered. */
  const lines = new Map<string, TurnLine>();
  const udp = await Bun.udpSocket({
    hostname,
    port,
    binaryType: "buffer",
    socket: {
      data(socket, data, remotePort, remoteAddress) {
        const key = `${remoteAddress} ${remotePort}`;
        const line = lines.get(key) ?? {
          address: plainAddress(remoteAddress),
          port: remotePort,
          transport: "udp" as const,
          send: (message) => socket.send(message, remotePort, remoteAddress),
          close: () => void lines.delete(key),
        };
        server.receive(data, line);
        if (server.holds(line)) lines.set(key, line);
        else lines.delete(key);
      },
      error: () => {},
    },
  });
  type Guest = { connection: Carrier; settled: () => void };
  const tcp = Bun.listen<Guest | null>({
    hostname,
    port: udp.port,
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
  return {
    port: udp.port,
    close() {
      udp.close();
      tcp.stop(true);
    },
  };
}
