import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { createLog } from "../../../src/kernel/log.ts";
import { createForwardedClient, createLoopbackTransport } from "../../../src/kernel/net/loopback-transport.ts";
import { ADMISSION_LIMITS, type AdmissionLimits } from "../../../src/network/tls/admission.ts";
import {
  createClientTables,
  TlsMultiplexer,
  type TlsMultiplexerOptions,
} from "../../../src/network/tls/tls-multiplexer.ts";
import { TurnClient } from "../../../src/network/turn/client.ts";
import { turnCredential } from "../../../src/network/turn/credentials.ts";
import { TurnStream } from "../../../src/network/turn/framing.ts";
import { makeCertificate } from "../../ops/certificate.ts";

export const TURN_SECRET = "a secret that only the server has";
/** The relayed address given to clients; it does not belong to this machine. */
export const ANNOUNCED = "203.0.113.5";

const CHUNK = new Uint8Array(64 * 1_024);

type StageOptions = Partial<TlsMultiplexerOptions> & {
  limits?: Partial<AdmissionLimits>;
  /** Forwards over the loopback transport, as a whole server does. */
  overLoopback?: boolean;
};

/** A TLS thread in front of a bare HTTP server that responds with the client's address. */
export async function tlsStage(options: StageOptions = {}) {
  const { limits, overLoopback = false, ...given } = options;
  const folder = mkdtempSync(join(tmpdir(), "stoa-multiplexer-"));
  const pem = async (name: string) => {
    const files = await makeCertificate(folder, name);
    return { cert: readFileSync(files.cert, "utf8"), key: readFileSync(files.key, "utf8") };
  };
  const tables = createClientTables();
  let pulled = 0;
  const endless = () =>
    new ReadableStream({
      pull(controller) {
        pulled += CHUNK.length;
        controller.enqueue(CHUNK);
      },
    });
  const loopback = overLoopback ? createLoopbackTransport() : null;
  const forwardedClient = loopback && createForwardedClient(loopback);
  const served = {
    async fetch(request: Request, server: Bun.Server<undefined>) {
      const peer = server.requestIP(request);
      const client = tables.tcp.clientOf(peer?.port ?? 0);
      const carried = forwardedClient?.(request);
      if (!peer && carried === null) return new Response(null, { status: 403, headers: { connection: "close" } });
      const { pathname } = new URL(request.url);
      if (pathname === "/socket" && server.upgrade(request)) return undefined;
      if (pathname === "/echo") return new Response(await request.arrayBuffer());
      if (pathname === "/much") return new Response(new Uint8Array(32 * 1_024 * 1_024));
      if (pathname === "/endless") return new Response(endless());
      if (pathname === "/length") return Response.json({ carried, length: (await request.arrayBuffer()).byteLength });
      return Response.json({ client, carried });
    },
    websocket: { message: (socket: Bun.ServerWebSocket, message: string | Buffer) => void socket.send(message) },
  };
  const upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, ...served });
  const loopbackServer = loopback ? Bun.serve({ unix: loopback.name, ...served }) : null;
  const certificate = await pem("first");
  const multiplexer = new TlsMultiplexer(tables, createLog({ level: "silent", format: "json" }));
  await multiplexer.listen({
    hostname: "127.0.0.1",
    port: 0,
    upstream: { hostname: "127.0.0.1", port: upstream.port ?? 0 },
    loopback,
    certificate,
    trustedProxies: [],
    admission: { ...ADMISSION_LIMITS, ...limits },
    turn: {
      secret: TURN_SECRET,
      realm: "localhost",
      relayAddresses: [ANNOUNCED],
      limits: { perId: 4, perAddress: 100, total: 100, bitsPerSecond: 100_000_000 },
      port: null,
    },
    ...given,
  });
  const url = `https://127.0.0.1:${multiplexer.port}`;
  return {
    multiplexer,
    tables,
    url,
    loopback,
    loopbackServer,
    pem,
    /** The bytes that were read of the endless response. */
    pulled: () => pulled,
    get: (path: string, init: RequestInit = {}) =>
      fetch(`${url}${path}`, { ...init, keepalive: false, tls: { rejectUnauthorized: false } } as RequestInit),
    tls: (alpn?: string[]) => secured(multiplexer.port, alpn),
    async close() {
      multiplexer.close();
      await upstream.stop(true);
      await loopbackServer?.stop(true);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function secured(port: number, alpn?: string[]): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const protocols = alpn ? { ALPNProtocols: alpn } : {};
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...protocols }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** A TURN client over TLS, with credentials for an id. */
export function turnOver(port: number, id: string): Promise<TurnOverTls> {
  return turnAs(port, turnCredential(TURN_SECRET, id, Date.now() + 600_000));
}

type TurnOverTls = { client: TurnClient; socket: TLSSocket };

export async function turnAs(
  port: number,
  { username = "", credential = "" }: { username?: string; credential?: string },
): Promise<TurnOverTls> {
  const socket = await secured(port);
  const client = new TurnClient((message) => void socket.write(message), username, credential);
  const stream = new TurnStream();
  socket.on("data", (data: Buffer) => void stream.push(data, (message) => client.receive(message)));
  socket.on("error", () => {});
  socket.on("close", () => client.failed(new Error("it closed the connection")));
  return { client, socket };
}

export function nextData(client: TurnClient): Promise<string> {
  return new Promise((resolve) => {
    client.onData = (data) => resolve(data.toString());
  });
}

export function closed(socket: Socket): Promise<void> {
  // The end of a stream is seen only after everything before it is read.
  socket.resume();
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(5);
}
