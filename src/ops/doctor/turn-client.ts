import { connect as connectTcp, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { addressText } from "../../network/turn/address.ts";
import { TurnClient } from "../../network/turn/client.ts";
import { TurnStream } from "../../network/turn/framing.ts";
import { TIMEOUT_MS } from "./check.ts";

type TurnTarget = { host: string; port: number; transport: "udp" | "tcp" | "tls" };

/** Parses `turn:host:port?transport=tcp` and similar URIs (RFC 7065). */
export function turnTarget(url: string): TurnTarget {
  const {
    scheme,
    host = "",
    port,
    transport,
  } = /^(?<scheme>turns?):(?<host>\[[^\]]+\]|[^:?]+)(?::(?<port>\d+))?(?:\?transport=(?<transport>udp|tcp))?$/.exec(url)
    ?.groups ?? {};
  if (host === "") throw new Error(`${url} is not a TURN address`);
  const secure = scheme === "turns";
  return {
    host: host.replace(/^\[|\]$/g, ""),
    port: Number(port ?? (secure ? 5349 : 3478)),
    transport: secure ? "tls" : transport === "tcp" ? "tcp" : "udp",
  };
}

type Connection = { write(message: Buffer): void; close(): void };
type Reader = { onMessage(message: Buffer): void; onFailure(error: Error): void };

/**
 * Allocates a relayed address with these credentials and releases it. Resolves to the address; throws when the
 * allocation is rejected.
 */
export function allocateRelay(target: TurnTarget, username: string, password: string): Promise<string> {
  return withTurn(target, username, password, async (client) => {
    const relay = addressText(await client.allocate());
    await client.release();
    return relay;
  });
}

export async function withTurn<Result>(
  target: TurnTarget,
  username: string,
  password: string,
  use: (client: TurnClient) => Promise<Result>,
): Promise<Result> {
  let connection: Connection | null = null;
  const client = new TurnClient((message) => connection?.write(message), username, password);
  const reader: Reader = {
    onMessage: (message) => client.receive(message),
    onFailure: (error) => client.failed(error),
  };
  const open = target.transport === "udp" ? openUdp(target, reader) : openTcp(target, reader);
  try {
    connection = await withTimeout(open);
    return await withTimeout(use(client));
  } finally {
    void open.then(({ close }) => close()).catch(() => {});
  }
}

async function openUdp({ host, port }: TurnTarget, { onMessage }: Reader): Promise<Connection> {
  const socket = await Bun.udpSocket({
    connect: { hostname: host, port },
    binaryType: "buffer",
    socket: { data: (_socket, data) => onMessage(data), error: () => {} },
  });
  return { write: (message) => void socket.send(message), close: () => socket.close() };
}

async function openTcp({ host, port, transport }: TurnTarget, { onMessage, onFailure }: Reader): Promise<Connection> {
  const stream = new TurnStream();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // SNI allows host names only.
  const name = isIP(host) === 0 ? { servername: host } : {};
  const socket = transport === "tls" ? connectTls({ host, port, ...name }) : connectTcp({ host, port });
  socket.once(transport === "tls" ? "secureConnect" : "connect", () => resolve());
  const fail = (error: Error) => {
    reject(error);
    onFailure(error);
  };
  socket.on("error", fail);
  socket.on("close", () => fail(new Error("it closed the connection")));
  socket.on("data", (data: Buffer) => {
    if (!stream.push(data, onMessage)) fail(new Error("it does not speak TURN"));
  });
  await promise;
  return { write: (message) => void socket.write(message), close: () => socket.destroy() };
}

function withTimeout<Result>(work: Promise<Result>): Promise<Result> {
  const late = Bun.sleep(TIMEOUT_MS).then((): never => {
    throw new Error("it does not answer");
  });
  late.catch(() => {});
  return Promise.race([work, late]);
}
