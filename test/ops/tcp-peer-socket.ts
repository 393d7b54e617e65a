import { createConnection, type Socket } from "node:net";
import type { PeerSocket } from "../../src/rtc-client/peer.ts";

const LENGTH_BYTES = 2;

/** The socket of a client whose network lets no UDP through: ICE over TCP, framed by RFC 4571. */
export async function tcpPeerSocket(onData: (data: Buffer) => void): Promise<PeerSocket> {
  let connection: Socket | null = null;
  let isLost = false;
  let received = Buffer.alloc(0);
  const open = (port: number, host: string) =>
    createConnection({ port, host })
      .on("data", (data) => {
        received = Buffer.concat([received, data]);
        while (received.length >= LENGTH_BYTES) {
          const end = LENGTH_BYTES + received.readUInt16BE();
          if (received.length < end) return;
          onData(Buffer.from(received.subarray(LENGTH_BYTES, end)));
          received = received.subarray(end);
        }
      })
      .on("error", () => {})
      .on("close", () => {
        isLost = true;
      });
  return {
    port: 0,
    get closed() {
      return isLost;
    },
    send(data, port, address) {
      connection ??= open(port, address);
      const frame = Buffer.alloc(LENGTH_BYTES + data.length);
      frame.writeUInt16BE(data.length);
      frame.set(data, LENGTH_BYTES);
      if (!isLost) connection.write(frame);
    },
    close: () => void connection?.destroy(),
  };
}
