import { connect, type Socket } from "node:net";

type RawRequest = {
  socket: Socket;
  /** The response so far. */
  received(): string;
  send(data: string | Uint8Array): Promise<void>;
  /** Resolves with all that came back once `enough` says so, or the other side has closed. */
  until(enough: (text: string) => boolean): Promise<string>;
  destroy(): void;
};

/** HTTP by hand: what no well-behaved client would send. */
export async function rawRequest(url: string, head: string[]): Promise<RawRequest> {
  const { hostname, port, pathname, search, host } = new URL(url);
  let text = "";
  let closed = false;
  const waiting = new Set<() => void>();
  const changed = () => {
    for (const check of waiting) check();
  };
  const socket = connect(Number(port), hostname);
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    changed();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    closed = true;
    changed();
  });
  await new Promise<void>((done) => socket.once("connect", () => done()));
  const send = (data: string | Uint8Array) =>
    new Promise<void>((done) => {
      if (closed || socket.write(data)) return done();
      const go = () => {
        socket.off("drain", go);
        socket.off("close", go);
        done();
      };
      socket.on("drain", go);
      socket.on("close", go);
    });
  await send(`PUT ${pathname}${search} HTTP/1.1\r\nhost: ${host}\r\n${head.map((line) => `${line}\r\n`).join("")}\r\n`);
  return {
    socket,
    send,
    received: () => text,
    until: (enough) =>
      new Promise((done) => {
        const check = () => {
          if (!closed && !enough(text)) return;
          waiting.delete(check);
          done(text);
        };
        waiting.add(check);
        check();
      }),
    destroy: () => void socket.destroy(),
  };
}

export function chunked(bytes: string | Uint8Array): Uint8Array {
  const data = Buffer.from(bytes as string);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from("\r\n")]);
}

export const answered = (text: string) => /\r\n\r\n/.test(text);
export const statusOf = (text: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]);
