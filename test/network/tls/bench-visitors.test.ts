import { expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";

const VISITORS = join(import.meta.dir, "../../bench/edge/visitors.ts");

/** The bench's report of handshakes with a server that treats every connection like this. */
async function visited(patienceMs: number, answer: (socket: Socket) => void) {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    answer(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  // One certificate at 50 a second, for a fifth of a second.
  const given = [String(port), "rtc.example.com", "1", "50", "0.2", String(patienceMs)];
  const child = Bun.spawn([process.execPath, VISITORS, ...given], { stdout: "pipe", stderr: "inherit" });
  const said = JSON.parse(await new Response(child.stdout).text());
  server.close();
  return said;
}

test("the bench's unanswered handshakes end and are counted", async () => {
  const { handshakes, failures, seen } = await visited(200, (socket) => socket.resume());
  expect(seen).toBe(0);
  expect(handshakes).toBeGreaterThan(0);
  expect(failures).toEqual({ "no answer": handshakes });
});

test("the bench's handshakes that are cut off are counted", async () => {
  const { handshakes, failures, seen } = await visited(20_000, (socket) => socket.once("data", () => socket.end()));
  expect(seen).toBe(0);
  expect(handshakes).toBeGreaterThan(0);
  const failed = Object.values(failures as Record<string, number>).reduce((sum, one) => sum + one, 0);
  expect(failed).toBe(handshakes);
  expect(failures).not.toHaveProperty("no answer");
});
