import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MODULE = join(import.meta.dir, "../../src/rtc-client/participant/web-socket.ts");

/** Closed ports, and a server that answers without a WebSocket. */
const SCRIPT = `
import { createServer } from "node:http";
delete globalThis.WebSocket;
const { WebSocket } = await import("./web-socket.js");
const server = createServer((_, response) => response.end("no socket"));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
for (const port of [1, server.address().port]) {
  const socket = new WebSocket(\`ws://127.0.0.1:\${port}\`);
  console.log(await new Promise((resolve) => { socket.onclose = ({ code }) => resolve(code); }));
}
server.close();
`;

test("in Node without a WebSocket of its own, a server that does not answer does not end the process", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-web-socket-"));
  await Bun.build({ entrypoints: [MODULE], target: "node", outdir: folder });
  await Bun.write(join(folder, "package.json"), '{ "type": "module" }');
  await Bun.write(join(folder, "run.js"), SCRIPT);
  const node = Bun.spawn(["node", "run.js"], { cwd: folder, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(node.stdout).text(), new Response(node.stderr).text()]);
  expect([await node.exited, out, err]).toEqual([0, "1006\n1006\n", ""]);
  rmSync(folder, { recursive: true });
});
