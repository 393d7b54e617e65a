/**
 * An edge in front of a bare server that echoes, the same server with TLS of its own, and that behind a thread in C which
 * only passes bytes on. Prints their ports. `bare.ts HOP [loopback]`: the library of that thread, and whether the edge goes
 * through loopback in place of the inner socket.
 */
import { dlopen } from "bun:ffi";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tlsStage } from "../../network/tls/stage.ts";
import { makeCertificate } from "../../ops/certificate.ts";

const [hopLibrary = "", by] = process.argv.slice(2);
// All the sockets of a bench come from one address.
const limits = { waitingPerAddress: 10_000, waiting: 10_000, handshakesPerSecond: 10_000, handshakeBurst: 10_000 };
const { multiplexer } = await tlsStage({ limits, overLoopback: by !== "loopback" });
const files = await makeCertificate(mkdtempSync(join(tmpdir(), "stoa-bench-edge-")), "direct");
const served = {
  tls: { cert: readFileSync(files.cert), key: readFileSync(files.key) },
  fetch: (request: Request, server: Bun.Server<undefined>) =>
    server.upgrade(request) ? undefined : new Response(null, { status: 404 }),
  websocket: {
    message: (socket: Bun.ServerWebSocket, message: string | Buffer) => void socket.send(message),
    idleTimeout: 0,
  },
};
const direct = Bun.serve({ hostname: "127.0.0.1", port: 0, ...served });

const name = `stoa-bench-hop-${process.pid}`;
Bun.serve({ unix: `\0${name}`, ...served });
const { symbols } = dlopen(hopLibrary, { start_hop: { args: ["cstring"], returns: "i32" } });
const hop = symbols.start_hop(Buffer.from(`${name}\0`));
if (hop === 0) throw new Error("the thread that passes bytes on could not be started");

console.log(JSON.stringify({ multiplexer: multiplexer.port, direct: direct.port, hop }));
