/** Certificates that live for seconds, renewed again and again under handshakes, sockets, allocations and calls. */
import { join } from "node:path";
import { connect } from "node:tls";
import { freePorts, startPebble } from "../../acme/pebble.ts";
import type { Measured } from "../harness/report.ts";
import { openRelayedCall } from "./relayed-call.ts";
import { startEdgeServer } from "./server.ts";

const DOMAIN = "rtc.example.com";
const LIFETIME_SECONDS = 6;
const CALLS = 2;
/** What two cores carry beside the calls. */
const HANDSHAKES_PER_SECOND = 40;
/** Visitors have machines of their own; on this one they get what the server leaves. */
const ELSEWHERE = ["nice", "-n", "15"];

type Visits = { handshakes: number; failed: number; seen: number };

/** New connections at a steady rate, until so many certificates were shown. */
async function visit(port: number, certificates: number): Promise<Visits> {
  const script = [process.execPath, join(import.meta.dir, "visitors.ts")];
  const given = [String(port), DOMAIN, String(certificates), String(HANDSHAKES_PER_SECOND)];
  const child = Bun.spawn([...ELSEWHERE, ...script, ...given], { stdout: "pipe", stderr: "inherit" });
  return JSON.parse(await new Response(child.stdout).text());
}

export async function renewals(count: number): Promise<Measured[]> {
  const [edgePort = 0, httpPort = 0] = await freePorts(2);
  const pebble = await startPebble({
    tlsPort: edgePort,
    httpPort,
    lifetimeSeconds: LIFETIME_SECONDS,
    prefix: ELSEWHERE,
  });
  const authority = ["--acme-directory", pebble.directory, "--acme-ca", pebble.caFile, "--http-port", String(httpPort)];
  const startedAt = performance.now();
  const server = await startEdgeServer({ edgePort, settings: ["--domain", DOMAIN, ...authority] });
  try {
    while (!(await isShown(edgePort))) await Bun.sleep(20);
    const firstMs = performance.now() - startedAt;
    // Signaling takes the same way as media.
    const through = { ...server, url: `https://127.0.0.1:${edgePort}` };
    const quiet = await openRelayedCall(through);
    await Bun.sleep(5_000);
    const before = await quiet.end();
    const calls = await Promise.all(
      Array.from({ length: CALLS }, () => openRelayedCall(through, { hasDirectViewer: true })),
    );
    const idle = await openIdle(edgePort);
    const { handshakes, failed, seen } = await visit(edgePort, count + 1);
    const ends = await Promise.all(calls.map((call) => call.end()));
    const closed = idle.closed() + ends.filter(({ isClosed }) => isClosed).length;
    const longestGapMs = Math.max(...ends.map((end) => end.longestGapMs));
    const directGapMs = Math.max(...ends.map((end) => end.directGapMs));
    return [
      { what: "first start to https", value: firstMs / 1_000, unit: "s", goal: { atMost: 30 } },
      { what: "renewals", value: seen - 1, unit: "", goal: { atLeast: count } },
      { what: "handshakes meanwhile", value: handshakes, unit: "" },
      { what: "handshakes that failed", value: failed, unit: "", goal: { atMost: 0 } },
      { what: "connections closed", value: closed, unit: "", goal: { atMost: 0 } },
      { what: "longest gap of a call before", value: before.longestGapMs, unit: "ms" },
      { what: "longest gap past the relay meanwhile, the machine's own", value: directGapMs, unit: "ms" },
      { what: "longest gap of the calls meanwhile", value: longestGapMs, unit: "ms", goal: { atMost: 500 } },
    ];
  } catch (error) {
    console.error(await server.testimony());
    throw error;
  } finally {
    await server.stop();
    await pebble.close();
  }
}

function isShown(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername: DOMAIN, rejectUnauthorized: false }, () => {
      resolve(true);
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
  });
}

/** Connections that say a request now and then. */
async function openIdle(port: number): Promise<{ closed(): number }> {
  let closed = 0;
  for (let n = 0; n < 20; n++) {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    socket.on("error", () => {});
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    const ask = setInterval(() => socket.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), 1_000);
    socket.resume();
    socket.on("close", () => {
      clearInterval(ask);
      closed++;
    });
  }
  return { closed: () => closed };
}
