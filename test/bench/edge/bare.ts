/**
 * An edge in front of a bare server that echoes, and the same server with TLS of its own. Prints both ports. `loopback`:
 * in place of the inner socket.
 */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { edgeStage } from "../../edge/stage.ts";
import { makeCertificate } from "../../ops/certificate.ts";

// All the sockets of a bench come from one address.
const limits = { waitingPerAddress: 10_000, waiting: 10_000, handshakesPerSecond: 10_000, handshakeBurst: 10_000 };
const { edge } = await edgeStage({ limits, within: !process.argv.includes("loopback") });
const files = await makeCertificate(mkdtempSync(join(tmpdir(), "stoa-bench-edge-")), "direct");
const direct = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  tls: { cert: readFileSync(files.cert), key: readFileSync(files.key) },
  fetch: (request, server) => (server.upgrade(request) ? undefined : new Response(null, { status: 404 })),
  websocket: { message: (socket, message) => void socket.send(message), idleTimeout: 0 },
});
console.log(JSON.stringify({ edge: edge.port, direct: direct.port }));
