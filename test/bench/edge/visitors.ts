/** `visitors.ts PORT NAME CERTIFICATES`: one new connection after another, until so many certificates were shown. */
import { connect } from "node:tls";

const [port = "", servername = "", certificates = ""] = process.argv.slice(2);
const AT_ONCE = 4;
const seen = new Set<string>();
const counts = { handshakes: 0, failed: 0, seen: 0 };

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

async function visitor(): Promise<void> {
  while (seen.size < Number(certificates)) {
    const serial = await handshake();
    counts.handshakes++;
    if (serial === null) counts.failed++;
    else seen.add(serial);
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, visitor));
console.log(JSON.stringify({ ...counts, seen: seen.size }));
process.exit();
