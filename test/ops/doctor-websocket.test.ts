import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkWebsocket } from "../../src/ops/doctor/websocket.ts";
import { testConfig } from "../harness/test-config.ts";
import { makeCertificate } from "./certificate.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-doctor-websocket-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const examine = (PUBLIC_URL: string) =>
  checkWebsocket({ config: testConfig({ PUBLIC_URL }), running: null, now: Date.now() });
const loopback = { hostname: "127.0.0.1", port: 0 } as const;

test("[11] a name that DNS does not know is reported as such", async () => {
  expect(await examine("https://stoa.invalid")).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("DNS does not know stoa.invalid"),
    remedy: expect.stringContaining("A or AAAA record of stoa.invalid"),
  });
});

test("[11] a certificate that clients refuse is reported, not the proxy", async () => {
  const files = await makeCertificate(work, "own");
  const tls = { cert: readFileSync(files.cert, "utf8"), key: readFileSync(files.key, "utf8") };
  using server = Bun.serve({ ...loopback, tls, fetch: () => new Response() });
  const { status, detail, remedy } = await examine(`https://127.0.0.1:${server.port}`);
  expect(status).toBe("fail");
  expect(detail).toContain("its certificate is refused (");
  expect(remedy).toContain("a certificate for 127.0.0.1");
  expect(remedy).not.toContain("upgrade");
});

test("[11] a proxy that passes requests but no WebSockets is told from one that does not reach the server", async () => {
  let status = 200;
  using proxy = Bun.serve({ ...loopback, fetch: () => new Response(null, { status }) });
  const url = `http://127.0.0.1:${proxy.port}`;
  expect(await examine(url)).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("requests pass, WebSockets do not"),
    remedy: expect.stringContaining("upgrade and connection headers"),
  });
  status = 502;
  expect(await examine(url)).toMatchObject({
    status: "fail",
    detail: `${url}: /healthz answers 502 there`,
    remedy: expect.stringContaining("does not reach this server"),
  });
});

test("[11] a closed port is reported with the port to open; a socket that opens passes", async () => {
  const server = Bun.serve({
    ...loopback,
    fetch: (request, self) => (self.upgrade(request) ? undefined : new Response()),
    websocket: { message() {} },
  });
  const url = `http://127.0.0.1:${server.port}`;
  expect(await examine(url)).toMatchObject({ status: "pass", detail: `${url} takes WebSockets` });
  await server.stop(true);
  expect(await examine(url)).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("nothing answers there"),
    remedy: expect.stringContaining(`let in tcp ${new URL(url).port}.`),
  });
});
