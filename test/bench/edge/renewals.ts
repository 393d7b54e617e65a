/** Certificates that live for seconds, renewed again and again under handshakes, sockets, allocations and calls. */
import { join } from "node:path";
import { connect } from "node:tls";
import { freePorts, startPebble } from "../../network/acme/pebble.ts";
import { within } from "../harness/patience.ts";
import type { Measured } from "../harness/report.ts";
import { openRelayedCall } from "./relayed-call.ts";
import { startEdgeServer } from "./server.ts";

const DOMAIN = "rtc.example.com";
const LIFETIME_SECONDS = 6;
const CALLS = 2;
/** The rate of handshakes that two cores can carry beside the calls. */
const HANDSHAKES_PER_SECOND = 40;
/** Visitors have machines of their own; on this one they get what the server leaves. */
const ELSEWHERE = ["nice", "-n", "15"];

/** A renewal takes two thirds of a lifetime; the authority may be slow. */
const MOST_SECONDS_PER_CERTIFICATE = 2 * LIFETIME_SECONDS;
/** The edge itself has patience for ten seconds. */
const VISITOR_PATIENCE_MS = 20_000;

/** `failures`: how many, by what became of them. */
type Visits = { handshakes: number; failures: Record<string, number>; seen: number };

/** Opens connections at a steady rate until this many different certificates were shown, or the time for that is over. */
async function visit(port: number, certificates: number): Promise<Visits> {
  const script = [process.execPath, join(import.meta.dir, "visitors.ts")];
  const seconds = certificates * MOST_SECONDS_PER_CERTIFICATE;
  const given = [port, DOMAIN, certificates, HANDSHAKES_PER_SECOND, seconds, VISITOR_PATIENCE_MS].map(String);
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
    await within("the first certificate", untilShown(edgePort));
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
    const { handshakes, failures, seen } = await visit(edgePort, count + 1);
    console.log(`failed handshakes, by what became of them: ${JSON.stringify(failures)}`);
    const failed = Object.values(failures).reduce((sum, one) => sum + one, 0);
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

async function untilShown(port: number): Promise<void> {
  while (!(await isShown(port))) await Bun.sleep(20);
}

function isShown(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername: DOMAIN, rejectUnauthorized: false }, () => {
      resolve(true);
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
  });
}

/** Connections that say a request now and then. */
async function openIdle(port: number): Promise<{ closed(): number }> {
  let closed = 0;
  for (let n = 0; n < 20; n++) {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    socket.on("error", () => {});
    await within("an idle connection", new Promise((resolve) => socket.once("secureConnect", resolve)));
    const ask = setInterval(() => socket.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), 1_000);
    socket.resume();
    socket.on("close", () => {
      clearInterval(ask);
      closed++;
    });
  }
  return { closed: () => closed };
}
