/** `secure-site.ts ADDRESS CERT KEY SDK`: serves a page of another site, and the SDK, at port 443, in a process of its own. */
import { readFileSync } from "node:fs";

const [hostname = "", cert = "", key = "", sdk = ""] = process.argv.slice(2);
const script = readFileSync(sdk);
/** Records the objects that the SDK makes. */
const PAGE = `<!doctype html><script>
window.peerConnections = [];
window.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(...given) { super(...given); window.peerConnections.push(this); }
};</script>`;

Bun.serve({
  hostname,
  port: 443,
  tls: { cert: readFileSync(cert), key: readFileSync(key) },
  fetch(request) {
    const isScript = new URL(request.url).pathname === "/sdk.js";
    const type = isScript ? "text/javascript" : "text/html";
    return new Response(isScript ? script : PAGE, { headers: { "content-type": type } });
  },
});
console.log("listening");
