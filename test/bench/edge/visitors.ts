/** `visitors.ts PORT NAME CERTIFICATES PER_SECOND`: new connections at a steady rate, until so many certificates were shown. */
import { connect } from "node:tls";

const [port = "", servername = "", certificates = "", perSecond = ""] = process.argv.slice(2);
const seen = new Set<string>();
const counts = { handshakes: 0, failed: 0, seen: 0 };
let underWay = 0;

/** From one of many addresses: of one, so many in a second are refused on purpose. */
function place(): { host: string; port: number; localAddress: string } {
  return { host: "127.0.0.1", port: Number(port), localAddress: `127.0.1.${1 + (counts.handshakes % 200)}` };
}

/** The serial number of the certificate that it shows; null when the handshake fails. */
function handshake(): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ ...place(), servername, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.serialNumber ?? "");
      socket.destroy();
    });
    socket.once("error", () => resolve(null));
  });
}

async function visit(): Promise<void> {
  underWay++;
  counts.handshakes++;
  const serial = await handshake();
  underWay--;
  if (serial === null) counts.failed++;
  else seen.add(serial);
}

const startedAt = performance.now();
while (seen.size < Number(certificates)) {
  const due = ((performance.now() - startedAt) / 1_000) * Number(perSecond);
  while (counts.handshakes < due) void visit();
  await Bun.sleep(1_000 / Number(perSecond));
}
// Whoever has come is waited for: a handshake that is cut off here would count as none.
while (underWay > 0) await Bun.sleep(10);
console.log(JSON.stringify({ ...counts, seen: seen.size }));
process.exit();
