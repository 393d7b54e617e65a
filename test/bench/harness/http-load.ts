import type { Socket } from "bun";

export type Load = {
  url: string;
  headers: Record<string, string>;
  connections: number;
  pipelined: number;
  durationMs: number;
  /** The average pause of a connection between two requests; without it connections are kept busy. Only without pipelining. */
  pauseMs?: number;
};

/**
 * Requests per second of one GET, over connections that are kept full. Every answer to the same request has the same
 * length, so counting bytes counts answers: parsing them would cost this process more than some servers spend on them.
 */
export async function requestsPerSecond(load: Load): Promise<{ requests: number; perSecond: number }> {
  const { protocol, hostname, port, pathname } = new URL(load.url);
  const tls = protocol === "https:" ? { tls: { rejectUnauthorized: false } } : {};
  /** A TLS socket cannot be written before its handshake. */
  const whenReady = protocol === "https:" ? "handshake" : "open";
  const head = Object.entries({ host: hostname, ...load.headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = `GET ${pathname} HTTP/1.1\r\n${head.join("")}\r\n`;
  const answerBytes = await lengthOfAnswer({ hostname, port: Number(port), ...tls }, whenReady, request);

  let received = 0;
  const data = (socket: Socket<{ pending: number }>, chunk: Uint8Array) => {
    received += chunk.byteLength;
    const { data: state } = socket;
    state.pending += chunk.byteLength;
    const answered = Math.floor(state.pending / answerBytes);
    state.pending -= answered * answerBytes;
    if (answered === 0) return;
    if (load.pauseMs === undefined) socket.write(request.repeat(answered));
    else setTimeout(() => socket.write(request), Math.random() * 2 * load.pauseMs);
  };
  const startedAt = performance.now();
  const sockets = await Promise.all(
    Array.from({ length: load.connections }, () =>
      Bun.connect({
        hostname,
        port: Number(port),
        ...tls,
        data: { pending: 0 },
        socket: {
          data,
          [whenReady]: (socket: Socket<{ pending: number }>) => void socket.write(request.repeat(load.pipelined)),
        },
      }),
    ),
  );
  await Bun.sleep(load.durationMs);
  const requests = Math.floor(received / answerBytes);
  const seconds = (performance.now() - startedAt) / 1000;
  for (const socket of sockets) socket.terminate();
  return { requests, perSecond: requests / seconds };
}

/** The length of a single response, which must have status 200: refusals would make a bench fast. */
async function lengthOfAnswer(
  target: { hostname: string; port: number; tls?: { rejectUnauthorized: boolean } },
  whenReady: "open" | "handshake",
  request: string,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const socket = await Bun.connect({
    ...target,
    socket: {
      [whenReady]: (opened: Socket) => void opened.write(request),
      data(_: Socket, chunk: Buffer) {
        const text = chunk.toString();
        if (text.startsWith("HTTP/1.1 200")) resolve(chunk.byteLength);
        else reject(new Error(text));
      },
    },
  });
  return promise.finally(() => socket.end());
}
