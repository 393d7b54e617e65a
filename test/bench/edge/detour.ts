/** Sends a load participant's packets through a TURN server over TLS, as a browser behind a firewall does. */
import type { Socket } from "bun";
import type { Address } from "../../../src/network/turn/address.ts";
import { TurnClient } from "../../../src/network/turn/client.ts";
import { isChannelData, readChannelData, TurnStream, writeChannelData } from "../../../src/network/turn/framing.ts";

const CHANNEL = 0x4000;
const CANDIDATE = /a=candidate:\S+ 1 udp \d+ (\S+) (\d+) typ host/;

export type Relay = { host?: string; port: number; username: string; credential: string };
export type Detour = {
  via(sdp: string): Promise<string>;
  readonly isClosed: boolean;
  closed: Promise<void>;
  close(): void;
};

export async function openDetour({ host = "127.0.0.1", port, username, credential }: Relay): Promise<Detour> {
  let isClosed = false;
  const closed = Promise.withResolvers<void>();
  const frame = Buffer.alloc(2_000);
  const stream = new TurnStream();
  let rest: Buffer = Buffer.alloc(0);
  const write = (socket: Socket, data: Uint8Array) => {
    const bytes = rest.length > 0 ? Buffer.concat([rest, data]) : data;
    rest = Buffer.from(bytes.subarray(Math.max(0, socket.write(bytes))));
  };
  const ready = Promise.withResolvers<Socket>();
  const line = await Bun.connect({
    hostname: host,
    port,
    tls: { rejectUnauthorized: false },
    socket: {
      handshake: (socket) => ready.resolve(socket),
      data(_socket, data) {
        stream.push(data, (message) => {
          const framed = isChannelData(message) ? readChannelData(message) : undefined;
          if (framed) onPacket(framed.data);
          else client.receive(message);
        });
      },
      drain: (socket) => write(socket, new Uint8Array(0)),
      close() {
        isClosed = true;
        closed.resolve();
        client.failed(new Error("the relay has closed the connection"));
      },
      error() {},
    },
  });
  const client: TurnClient = new TurnClient((message) => write(line, message), username, credential);
  let onPacket: (data: Buffer) => void = () => {};
  let inside: Bun.udp.Socket<"buffer"> | null = null;
  await ready.promise;
  await client.allocate();

  return {
    closed: closed.promise,
    get isClosed() {
      return isClosed;
    },
    /** The server's answer, with a port of this process in place of the server's own. */
    async via(sdp) {
      const [, address = "", mediaPort = ""] = CANDIDATE.exec(sdp) ?? [];
      const peer: Address = { address, port: Number(mediaPort) };
      await client.permit(peer);
      await client.bind(CHANNEL, peer);
      let participant: Address | null = null;
      const own = await Bun.udpSocket({
        hostname: "127.0.0.1",
        binaryType: "buffer",
        socket: {
          data(_socket, data, from, at) {
            participant ??= { address: at, port: from };
            write(line, frame.subarray(0, writeChannelData(frame, CHANNEL, data, true)));
          },
          // The participant has left.
          error() {},
        },
      });
      inside = own;
      onPacket = (data) => participant && own.send(data, participant.port, participant.address);
      return sdp.replace(`${address} ${mediaPort} typ host`, `127.0.0.1 ${own.port} typ host`);
    },
    close() {
      line.terminate();
      inside?.close();
    },
  };
}
