import { createServer, type Socket } from "node:net";

export type Received = {
  headers: Headers;
  /** The bytes as they arrived. */
  body: string;
  event: {
    id: string;
    type: string;
    projectId: string;
    environment: string;
    createdAt: string;
    data: Record<string, unknown>;
  };
};

export type Receiver = {
  url: string;
  received: Received[];
  /** Makes the response to each request from now on. */
  reply: (request: Received) => Response | Promise<Response>;
  /** Resolves when `count` requests have arrived in total. */
  arrived(count: number): Promise<Received[]>;
  close(): void;
};

export const ok = () => new Response("fine");
export const failing = () => new Response("no", { status: 500 });

/** A developer's endpoint that records its requests. It does not keep the process alive. */
export function startReceiver(reply: Receiver["reply"] = ok, hostname = "127.0.0.1"): Receiver {
  const received: Received[] = [];
  const waiting: { count: number; done: (received: Received[]) => void }[] = [];
  const server = Bun.serve({
    hostname,
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      // The doctor's probe carries no event.
      if (request.method !== "POST") return new Response(null, { status: 405 });
      const body = await request.text();
      const one = { headers: request.headers, body, event: JSON.parse(body) };
      received.push(one);
      for (const { count, done } of waiting) if (received.length >= count) done(received);
      return receiver.reply(one);
    },
  });
  const receiver: Receiver = {
    url: `http://${hostname}:${server.port}/hook`,
    received,
    reply,
    arrived: (count) =>
      received.length >= count ? Promise.resolve(received) : new Promise((done) => waiting.push({ count, done })),
    close: () => void server.stop(true),
  };
  server.unref();
  return receiver;
}

type RawReceiver = { url: string; connections: number; bytesSent: number; close(): void };

/** An endpoint that breaks HTTP: `onRequest` gets the bare socket once data has arrived on it. */
export async function startRawReceiver(
  onRequest: (socket: Socket, receiver: RawReceiver) => void,
): Promise<RawReceiver> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    receiver.connections += 1;
    socket.on("error", () => {});
    socket.once("data", () => onRequest(socket, receiver));
  });
  const receiver: RawReceiver = {
    url: "",
    connections: 0,
    bytesSent: 0,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not listening");
  receiver.url = `http://127.0.0.1:${address.port}/hook`;
  return receiver;
}
