import type { PeerSocket } from "../../src/rtc-client/peer.ts";
import { turnAs } from "../network/tls/stage.ts";

type IceServer = { username?: string; credential?: string };

/** The socket of a client whose network lets nothing through but TLS: its datagrams are relayed by TURN. */
export function turnPeerSocket(port: number, server: IceServer) {
  return async (onData: (data: Buffer) => void): Promise<PeerSocket> => {
    const { client, socket } = await turnAs(port, server);
    await client.allocate();
    client.onData = onData;
    let permitted: Promise<void> | null = null;
    return {
      port: 0,
      get closed() {
        return socket.destroyed;
      },
      send(data, toPort, address) {
        const peer = { address, port: toPort };
        const copy = Buffer.from(data);
        permitted ??= client.permit(peer);
        void permitted.then(() => client.send(copy, peer));
      },
      close: () => void socket.destroy(),
    };
  };
}
