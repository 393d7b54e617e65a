import { connect, type Socket } from "node:net";

type RawConnection = { socket: Socket; heard: () => string; closed: Promise<void> };

/** A connection of bare bytes, with everything that came back. */
export async function rawConnection(url: string, bytes: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  let text = "";
  const socket = connect(Number(port), hostname);
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  const closed = new Promise<void>((done) => socket.once("close", () => done()));
  await new Promise<void>((open) => socket.once("connect", open));
  socket.write(bytes, "latin1");
  return { socket, heard: () => text, closed };
}

/** The head of the first answer, and whatever came with it. */
export async function answerTo(url: string, bytes: string): Promise<string> {
  const { socket, heard, closed } = await rawConnection(url, bytes);
  while (!heard().includes("\r\n\r\n") && !socket.destroyed) await Promise.race([closed, Bun.sleep(5)]);
  socket.destroy();
  return heard();
}
