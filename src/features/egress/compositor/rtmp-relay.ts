import { createServer, type Socket, connect as tcpConnect } from "node:net";
import { connect as tlsConnect } from "node:tls";

export type RtmpRelay = { port: number; close(): void };

const RTMP_PORT = 1_935;
const RTMPS_PORT = 443;

/**
 * Lets ffmpeg send to a loopback port, and connects that to the IP address that was checked. ffmpeg itself would resolve the name
 * again, perhaps to another address. TLS is added here, and the certificate is checked against the name.
 */
export async function openRtmpRelay(url: URL, address: string): Promise<RtmpRelay> {
  const isTls = url.protocol === "rtmps:";
  const port = url.port === "" ? (isTls ? RTMPS_PORT : RTMP_PORT) : Number(url.port);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const upstream = isTls
      ? tlsConnect({ host: address, port, ...(host === address ? {} : { servername: host }) })
      : tcpConnect({ host: address, port });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
    }
    client.pipe(upstream);
    upstream.pipe(client);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    close() {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}
