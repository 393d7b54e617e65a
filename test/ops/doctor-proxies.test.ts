import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Check } from "../../src/ops/doctor/check.ts";
import { start } from "../../src/server.ts";
import { stoa } from "../cli/stoa.ts";
import { testConfig } from "../harness/test-config.ts";
import { type CertificateFiles, makeCertificate, makeExpiredCertificate } from "./certificate.ts";
import { freePort, nginxWithoutUpgrade, PROXIES } from "./proxies.ts";

// One part in front of the server is wrong at a time; the doctor tells DNS, certificate and proxy apart.

const work = mkdtempSync(join(tmpdir(), "stoa-doctor-proxies-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));
const TRUST = { tls: { rejectUnauthorized: false } } as const;

type Proxy = (typeof PROXIES)["nginx"];

/** The WebSocket check of `stoa doctor` for a server behind that proxy, on a machine that trusts the certificate. */
async function examined(name: string, proxied: Proxy, files: CertificateFiles): Promise<Check | undefined> {
  const folder = join(work, name);
  mkdirSync(folder);
  const port = await freePort();
  const url = `https://localhost:${port}`;
  const dataDir = join(folder, "data");
  const server = await start(testConfig({ DATA_DIR: dataDir, PUBLIC_URL: url, TRUSTED_PROXIES: ["127.0.0.1"] }));
  const proxy = await proxied({ folder, port, backend: server.url, files });
  try {
    while (!(await fetch(`${url}/healthz`, TRUST).catch(() => null))?.ok) {
      if (proxy.exitCode !== null) throw new Error(`the proxy ended with ${proxy.exitCode}`);
      await Bun.sleep(20);
    }
    const settings = ["--public-url", url, "--data-dir", dataDir, "--public-ip", "127.0.0.1"];
    const { out } = await stoa(["doctor", "--json", ...settings], { env: { NODE_EXTRA_CA_CERTS: files.cert } });
    return (JSON.parse(out) as Check[]).find((check) => check.name === "websocket");
  } finally {
    proxy.kill();
    await proxy.exited;
    await server.stop("test", 0);
  }
}

test("[11] nginx without the upgrade headers is reported with the headers that it must pass on", async () => {
  const check = await examined("plain", nginxWithoutUpgrade, await makeCertificate(work, "plain"));
  expect(check?.remedy ?? "").not.toMatch(/certificate|record/);
  expect(check).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("requests pass, WebSockets do not"),
    remedy: expect.stringContaining("upgrade and connection headers"),
  });
}, 120_000);

test("[11] an expired certificate is reported, not the proxy that works", async () => {
  const check = await examined("late", PROXIES.nginx, await makeExpiredCertificate(work));
  expect(check?.remedy ?? "").not.toMatch(/upgrade|record/);
  expect(check).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("its certificate has expired"),
    remedy: expect.stringContaining("Renew the certificate for localhost"),
  });
}, 120_000);

test("[11] nothing is reported when certificate and proxy are right", async () => {
  const check = await examined("right", PROXIES.nginx, await makeCertificate(work, "right"));
  expect(check).toMatchObject({ status: "pass", detail: expect.stringContaining("takes WebSockets") });
}, 120_000);
