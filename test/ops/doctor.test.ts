import { afterAll, afterEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerNote } from "../../src/kernel/data-directory/data-lock.ts";
import { CHECK_NAMES, type Check } from "../../src/ops/doctor/check.ts";
import { checkPorts } from "../../src/ops/doctor/ports.ts";
import { PROGRAM, ROOT, type RunningStoa, startStoa, stoa } from "../cli/stoa.ts";
import { testConfig } from "../harness/test-config.ts";
import { makeCertificate } from "./certificate.ts";
import { startCoturn } from "./coturn.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-doctor-"));
const children: Bun.Subprocess[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

async function serve(dataDir: string, ...args: string[]): Promise<RunningStoa> {
  const ports = ["--port", "0", "--media-udp-port", "0", "--media-workers", "1"];
  const server = await startStoa([...PROGRAM, "serve", ...ports, "--data-dir", dataDir, ...args]);
  children.push(server.child);
  return server;
}

async function doctor(...args: string[]): Promise<{ code: number; checks: Check[]; of(name: string): Check[] }> {
  const { code, out, err } = await stoa(["doctor", "--json", ...args]);
  if (out === "") throw new Error(err);
  const checks = JSON.parse(out) as Check[];
  return { code, checks, of: (name) => checks.filter((check) => check.name === name) };
}

const free = (...args: string[]) => ["--port", "0", "--media-udp-port", "0", ...args];

async function taken(): Promise<{ port: string; close(): void }> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { port: String((server.address() as { port: number }).port), close: () => void server.close() };
}

test("[11] a running server is found healthy: its data, its ports, its socket and a probe of every candidate", async () => {
  const dataDir = join(work, "healthy");
  const { url } = await serve(dataDir, "--public-ip", "127.0.0.1");
  const { code, checks, of } = await doctor("--data-dir", dataDir, "--public-ip", "127.0.0.1");
  expect(checks.filter(({ status }) => status === "fail")).toEqual([]);
  expect(code).toBe(0);
  expect(of("http-port")[0]).toMatchObject({ status: "pass", detail: `the running server answers at ${url}` });
  expect(of("media-probe")).toEqual([
    {
      name: "media-probe",
      status: "pass",
      detail: expect.stringMatching(/^udp 127\.0\.0\.1:\d+ answers$/),
      remedy: "",
    },
    {
      name: "media-probe",
      status: "pass",
      detail: expect.stringMatching(/^tcp 127\.0\.0\.1:\d+ answers$/),
      remedy: "",
    },
  ]);
  expect(of("websocket")[0]?.status).toBe("pass");
  expect(of("livekit-clients")[0]).toMatchObject({ status: "pass", detail: `${url} lets LiveKit's clients in` });
  expect(of("database")[0]?.status).toBe("pass");
  for (const { status, remedy } of checks) expect(remedy === "").toBe(status === "pass");

  const text = await stoa(["doctor", "--data-dir", dataDir]);
  expect(text.out).toMatch(/^ok {4}data-directory +\S/m);
});

test("[11] the guide explains every check, and the doctor makes them all", async () => {
  const guide = readFileSync(join(ROOT, "web/docs/troubleshooting.md"), "utf8");
  for (const name of CHECK_NAMES) expect(guide).toContain(`\`${name}\``);
  const provider = ["--oauth-acme-issuer", "http://127.0.0.1:1", "--oauth-acme-client-id", "a"];
  const { checks } = await doctor(
    ...free("--data-dir", join(work, "all"), ...provider, "--oauth-acme-client-secret", "very-secret"),
  );
  const made = new Set<string>(checks.map(({ name }) => name));
  // The last name is for a check that itself fails.
  expect([...made]).toEqual(CHECK_NAMES.filter((name) => name !== "doctor"));
});

test("[11] a server that hangs is reported, and the doctor does not hang", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  const running = { url: `http://127.0.0.1:${silent.port}`, mediaPorts: [7001] } as ServerNote;
  const [check] = await checkPorts({ config: testConfig(), running, now: Date.now() });
  silent.stop(true);
  expect(check).toMatchObject({ name: "http-port", status: "fail" });
}, 30_000);

test("[11] an address that does not respond is reported with the port to open", async () => {
  const dataDir = join(work, "unreachable");
  await serve(dataDir, "--host", "127.0.0.1", "--public-ip", "127.0.0.1,192.0.2.1");
  const { of } = await doctor("--data-dir", dataDir);
  const seen = of("media-probe").map(({ status, detail }) => `${status} ${detail.split(":")[0]}`);
  expect(seen).toEqual(["pass udp 127.0.0.1", "pass tcp 127.0.0.1", "warn udp 192.0.2.1", "warn tcp 192.0.2.1"]);
  expect(of("media-probe")[2]).toMatchObject({ remedy: expect.stringMatching(/^Let in udp \d+/) });
  expect(of("media-probe")[3]).toMatchObject({ remedy: expect.stringMatching(/^Let in tcp \d+/) });
});

test("[11] a failed check is reported, has a remedy and makes the exit code 1", async () => {
  const blocked = join(work, "file");
  writeFileSync(blocked, "");
  const noDirectory = await doctor(...free("--data-dir", join(blocked, "data")));
  expect([noDirectory.code, noDirectory.of("data-directory")[0]?.status]).toEqual([1, "fail"]);

  const damaged = join(work, "damaged");
  mkdirSync(damaged);
  writeFileSync(join(damaged, "stoa.db"), "no database, only words".repeat(400));
  const noDatabase = await doctor(...free("--data-dir", damaged));
  expect([noDatabase.code, noDatabase.of("database")[0]?.status]).toEqual([1, "fail"]);

  const { port, close } = await taken();
  const busy = await doctor("--port", port, "--media-udp-port", "0", "--data-dir", join(work, "busy"));
  close();
  expect([busy.code, busy.of("http-port")[0]?.status]).toEqual([1, "fail"]);
});

test("[11] loopback candidates of a public server fail, trusting any proxy fails, an untrusted proxy is a warning", async () => {
  const dataDir = join(work, "public");
  const { of } = await doctor(...free("--data-dir", dataDir, "--host", "0.0.0.0", "--public-ip", "127.0.0.1"));
  expect(of("media-addresses")[0]).toMatchObject({ status: "fail", remedy: expect.stringContaining("PUBLIC_IP") });
  const proxied = await doctor(...free("--data-dir", dataDir, "--public-url", "https://127.0.0.1:1"));
  expect(proxied.of("proxy-headers")[0]).toMatchObject({
    status: "warn",
    remedy: expect.stringContaining("TRUSTED_PROXIES"),
  });
  expect(proxied.of("websocket")[0]?.status).toBe("fail");
  expect(proxied.of("livekit-clients")[0]).toMatchObject({ status: "warn", remedy: expect.stringContaining("/twirp") });
  const gullible = await doctor(...free("--data-dir", dataDir, "--trusted-proxies", "0.0.0.0/0"));
  expect(gullible.of("proxy-headers")[0]?.status).toBe("fail");
});

test("[11] mail, sign-in and certificates are tried as the server would use them", async () => {
  const { cert, key } = await makeCertificate(work, "short");
  const { port, close } = await taken();
  close();
  const { code, of } = await doctor(
    ...free("--data-dir", join(work, "outside"), "--smtp-url", `smtp://127.0.0.1:${port}`),
    ...["--oauth-acme-issuer", `http://127.0.0.1:${port}`, "--oauth-acme-client-id", "a"],
    ...["--oauth-acme-client-secret", "very-secret", "--tls-cert", cert, "--tls-key", key],
  );
  expect(code).toBe(1);
  expect(of("mail")[0]?.status).toBe("fail");
  expect(of("sign-in")[0]).toMatchObject({ status: "fail", remedy: expect.stringContaining("OAUTH_ACME_ISSUER") });
  expect(of("certificate")[0]?.status).toBe("warn");
});

test("[11] TURN: coturn gives a relay to our credentials over UDP and TCP, and refuses another secret", async () => {
  const { port, close } = await taken();
  close();
  const { child } = await startCoturn({
    address: "127.0.0.1",
    port: Number(port),
    secret: "a shared secret",
    folder: work,
  });
  children.push(child);
  const urls = `turn:127.0.0.1:${port},turn:127.0.0.1:${port}?transport=tcp`;
  const ask = (secret: string) =>
    doctor(...free("--data-dir", join(work, "turn"), "--turn-urls", urls, "--turn-secret", secret));
  const answer = await ask("a shared secret");
  expect(answer.of("turn").map(({ status, detail }) => [status, /relay: 127\.0\.0\.1:\d+$/.test(detail)])).toEqual([
    ["pass", true],
    ["pass", true],
  ]);
  const wrong = await ask("another secret");
  expect(wrong.code).toBe(1);
  for (const { detail } of wrong.of("turn")) expect(detail).toContain("it refuses the credentials");
  expect(JSON.stringify(wrong.checks)).not.toContain("another secret");
});
