import type { Address } from "../../../src/network/turn/address.ts";
import { TurnClient } from "../../../src/network/turn/client.ts";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { TurnServer } from "../../../src/network/turn/server.ts";
import type { ClientTransport, RelayRequest, TransportProtocol } from "../../../src/network/turn/transports.ts";

export const SECRET = "a secret that only the server has";
export const MEDIA = { address: "203.0.113.5", port: 7001 };
export const MEDIA_ALSO = { address: "203.0.113.5", port: 7002 };

export type FakeRelay = RelayRequest & { sent: string[]; closed: boolean };

/** A TURN server without a socket, on a clock of its own. */
export function turnStage(limits: Partial<ConstructorParameters<typeof TurnServer>[0]["limits"]> = {}) {
  let nowMs = 1_700_000_000_000;
  const relays: FakeRelay[] = [];
  const server = new TurnServer({
    secret: SECRET,
    realm: "rtc.example.com",
    relayAddresses: [MEDIA.address, "2001:db8::5"],
    limits: { perId: 4, perAddress: 100, total: 1_000, bitsPerSecond: 8_000_000, ...limits },
    holderOf: (address) => address,
    now: () => nowMs,
    open: async (request) => {
      const relay: FakeRelay = { ...request, sent: [], closed: false };
      relays.push(relay);
      return {
        send: (data) => void relay.sent.push(Buffer.from(data).toString("latin1")),
        close: () => {
          relay.closed = true;
        },
      };
    },
  });
  const loopback = (port: number) => ({ address: "127.0.0.1", port });
  server.setPeers([
    { announced: MEDIA, reached: loopback(7001) },
    { announced: MEDIA_ALSO, reached: loopback(7002) },
    { announced: { address: "2001:db8::5", port: 7001 }, reached: loopback(7001) },
  ]);

  function connectClient(
    options: { id?: string; transport?: TransportProtocol; from?: Address; credential?: Credential } = {},
  ) {
    const {
      id = "session-1",
      transport = "tls",
      from = { address: "198.51.100.7", port: 40_000 + relays.length },
    } = options;
    const credential = options.credential ?? turnCredential(SECRET, id, nowMs + 60_000);
    const frames: Buffer[] = [];
    const line: ClientTransport & { isClosed: boolean } = {
      ...from,
      protocol: transport,
      isClosed: false,
      send(message) {
        const copy = Buffer.from(message);
        frames.push(copy);
        client.receive(copy);
        return true;
      },
      close() {
        line.isClosed = true;
        server.closed(line);
      },
    };
    const write = (message: Buffer) => server.receive(message, line);
    const client = new TurnClient(write, credential.username, credential.credential);
    return { client, line, frames, write };
  }

  function pass(ms: number): void {
    nowMs += ms;
  }

  return { server, relays, connectClient, now: () => nowMs, pass };
}

type Credential = { username: string; credential: string };

export async function refusalOf(asking: Promise<unknown>): Promise<number | undefined> {
  const failure = await asking.then(
    () => undefined,
    (error: unknown) => error,
  );
  return (failure as { code?: number } | undefined)?.code;
}
