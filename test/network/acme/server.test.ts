import { afterAll, expect, test } from "bun:test";
import { connect } from "node:tls";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { freePorts, startPebble } from "./pebble.ts";

const DOMAIN = "rtc.example.com";
const cleanup: (() => unknown)[] = [];
afterAll(async () => {
  for (const clean of cleanup.reverse()) await clean();
});

/** Whether a client that trusts this root, and nothing else, is satisfied. */
function isTrusted(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername: DOMAIN, ca }, () => {
      resolve(socket.authorized);
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
  });
}

test("[22] a first start with a domain serves trusted https, and port 80 redirects to it", async () => {
  const [tlsPort = 0, httpPort = 0] = await freePorts(2);
  const pebble = await startPebble({ tlsPort, httpPort });
  cleanup.push(pebble.close);
  const server: RealServer = await realServer({
    DOMAIN,
    EDGE_PORT: tlsPort,
    HTTP_PORT: httpPort,
    ACME_DIRECTORY: pebble.directory,
    ACME_CA: pebble.caFile,
    ACME_EMAIL: "operator@example.com",
  });
  cleanup.push(server.close);
  const root = await pebble.root();
  while (!(await isTrusted(tlsPort, root))) await Bun.sleep(50);
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  const moved = await fetch(`http://127.0.0.1:${httpPort}/docs`, { redirect: "manual" });
  expect([moved.status, moved.headers.get("location")]).toEqual([308, `https://${DOMAIN}:${tlsPort}/docs`]);
  const roomId = await server.room();
  const { body } = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: "alice" });
  expect(body.iceServers).toMatchObject([{ urls: [`turns:${DOMAIN}:${tlsPort}?transport=tcp`] }]);
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  expect(metrics).toMatch(/stoa_edge_handshakes_total [1-9]/);
  expect(metrics).toContain("stoa_certificate_expires_seconds");
}, 60_000);
