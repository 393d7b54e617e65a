/** What a stranger can send: without any credential, to the public port. */
import { connect } from "node:net";
import { closed, secured } from "../network/tls/stage.ts";

/** Requests whose framing two servers would read differently, or that never end. */
export const FRAMING: Record<string, string> = {
  "a chunk of size -6": "transfer-encoding: chunked\r\n\r\n-6\r\n\r\n\r\n",
  "a negative chunk behind another": "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n-9\r\n\r\n\r\n",
  "a chunk past every number": `transfer-encoding: chunked\r\n\r\n${"f".repeat(16)}\r\nhello`,
  "a chunk longer than its size": "transfer-encoding: chunked\r\n\r\n5\r\nhello!!0\r\n\r\n",
  "an extension without an end": `transfer-encoding: chunked\r\n\r\n5;${"a".repeat(2_000)}`,
  "trailers without an end": `transfer-encoding: chunked\r\n\r\n0\r\n${"x: y\r\n".repeat(1_000)}`,
  "a negative length": "content-length: -6\r\n\r\nhello",
  "a length after a space of another kind": "content-length: \xa05\r\n\r\nhello",
  "a length and chunks": "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "two lengths": "content-length: 5\r\ncontent-length: 0\r\n\r\nhello",
  "a folded header": "x: a\r\n content-length: 5\r\n\r\nhello",
  "bare line feeds": "x: a\ncontent-length: 5\n\nhello",
  "a bare carriage return": "x: a\rcontent-length: 5\r\n\r\nhello",
};

/** Everything that comes back over TLS until the server closes the connection. */
export async function answerOverTls(port: number, bytes: string): Promise<string> {
  const socket = await secured(port);
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString("latin1");
  });
  socket.on("error", () => {});
  const gone = closed(socket);
  socket.write(bytes, "latin1");
  await gone;
  return text;
}

/** Sends a request and resets the connection at once, so that the server cannot read its address any more. */
export function sendAndReset(url: string, request: string, localAddress: string): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), localAddress }, () => {
      socket.write(request, () => {
        socket.resetAndDestroy();
        resolve();
      });
    });
    socket.once("error", reject);
  });
}
