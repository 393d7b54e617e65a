/**
 * `visitors.ts PORT NAME CERTIFICATES PER_SECOND SECONDS PATIENCE_MS`: new connections at a steady rate, until so many
 * certificates were shown or the time is over. Tells how those went that failed.
 */
import { connect } from "node:tls";

const [port = 0, certificates = 0, perSecond = 0, seconds = 0, patienceMs = 0] = process.argv
  .slice(2)
  .toSpliced(1, 1)
  .map(Number);
const servername = process.argv[3] ?? "";
const seen = new Set<string>();
const failures: Record<string, number> = {};
let handshakes = 0;
let underWay = 0;

/** Connections come from many addresses, because the server refuses so many per second from one. */
function place(): { host: string; port: number; localAddress: string } {
  return { host: "127.0.0.1", port, localAddress: `127.0.1.${1 + (handshakes % 200)}` };
}

/** The serial number of the certificate that it shows, or why there is none. */
function handshake(): Promise<{ serial: string } | { failure: string }> {
  return new Promise((resolve) => {
    const socket = connect({ ...place(), servername, rejectUnauthorized: false }, () => {
      resolve({ serial: socket.getPeerX509Certificate()?.serialNumber ?? "" });
      socket.destroy();
    });
    const failed = (failure: string) => resolve({ failure });
    const timer = setTimeout(() => {
      failed("no answer");
      socket.destroy();
    }, patienceMs);
    socket.once("error", (error: NodeJS.ErrnoException) => failed(error.code ?? error.message));
    // Some end with neither a handshake nor an error.
    socket.once("close", () => {
      clearTimeout(timer);
      failed("closed");
    });
  });
}

async function visit(): Promise<void> {
  underWay++;
  handshakes++;
  const outcome = await handshake();
  underWay--;
  if ("serial" in outcome) seen.add(outcome.serial);
  else failures[outcome.failure] = (failures[outcome.failure] ?? 0) + 1;
}

const startedAt = performance.now();
const elapsedSeconds = () => (performance.now() - startedAt) / 1_000;
while (seen.size < certificates && elapsedSeconds() < seconds) {
  const due = elapsedSeconds() * perSecond;
  while (handshakes < due) void visit();
  await Bun.sleep(1_000 / perSecond);
}
// A client that has come is waited for: a handshake that is cut off here would count as none.
while (underWay > 0) await Bun.sleep(10);
console.log(JSON.stringify({ handshakes, failures, seen: seen.size }));
process.exit();
