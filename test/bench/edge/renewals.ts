/** Certificates that live for seconds, renewed again and again under handshakes, sockets, allocations and a call. */
import { connect } from "node:tls";
import { freePorts, startPebble } from "../../acme/pebble.ts";
import type { Measured } from "../harness/report.ts";
import { openRelayedCall } from "./relayed-call.ts";
import { startEdgeServer } from "./server.ts";

const DOMAIN = "rtc.example.com";
const LIFETIME_SECONDS = 6;
const VISITORS = 4;

/** The serial number of the certificate that it shows; null when the handshake fails. */
function handshake(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername: DOMAIN, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.serialNumber ?? "");
      socket.destroy();
    });
    socket.once("error", () => resolve(null));
  });
}

export async function renewals(count: number): Promise<Measured[]> {
  const [edgePort = 0, httpPort = 0] = await freePorts(2);
  const pebble = await startPebble({ tlsPort: edgePort, httpPort, lifetimeSeconds: LIFETIME_SECONDS });
  const authority = ["--acme-directory", pebble.directory, "--acme-ca", pebble.caFile, "--http-port", String(httpPort)];
  const startedAt = performance.now();
  const server = await startEdgeServer({ edgePort, settings: ["--domain", DOMAIN, ...authority] });
  try {
    while ((await handshake(edgePort)) === null) await Bun.sleep(20);
    const firstMs = performance.now() - startedAt;
    const call = await openRelayedCall(server);
    const idle = await openIdle(edgePort);
    const seen = new Set<string>();
    let [handshakes, failed] = [0, 0];
    const visitor = async () => {
      while (seen.size <= count) {
        const serial = await handshake(edgePort);
        handshakes++;
        if (serial === null) failed++;
        else seen.add(serial);
      }
    };
    await Promise.all(Array.from({ length: VISITORS }, visitor));
    const { longestGapMs, isClosed } = await call.end();
    return [
      { what: "first start to https", value: firstMs / 1_000, unit: "s", goal: { atMost: 30 } },
      { what: "renewals", value: seen.size - 1, unit: "", goal: { atLeast: count } },
      { what: "handshakes meanwhile", value: handshakes, unit: "" },
      { what: "handshakes that failed", value: failed, unit: "", goal: { atMost: 0 } },
      { what: "connections closed", value: Number(isClosed) + idle.closed(), unit: "", goal: { atMost: 0 } },
      { what: "longest gap of the call", value: longestGapMs, unit: "ms", goal: { atMost: 500 } },
    ];
  } finally {
    await server.stop();
    await pebble.close();
  }
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
